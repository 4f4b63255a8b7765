"""Markers of a write that searches for rivals: before its markers are made, and before each data
file.

A failed search is not a reason to fail: the commit checks again (invariant EC2). The finder of a
conflict records it, so that all other tasks of the write stop as well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from workers.clock import InstantTime
from workers.concurrency.lock_takeover import table_lock
from workers.errors import EarlyConflict, LakehouseError
from workers.markers.base import CreateResult, MarkerSettings, MarkerWriter
from workers.markers.early_conflict import (
    early_conflict,
    raise_if_early_conflict,
    record_early_conflict,
)
from workers.markers.marker import Marker
from workers.markers.opener import open_markers
from workers.markers.rivals import RivalSearch, build_claims
from workers.options.early_detection import EarlyDetection, EarlyStrategy
from workers.options.write_keys import MarkerKind
from workers.options.write_options import WriteOptions
from workers.table.table import Table

_log = logging.getLogger(__name__)


def open_detecting(
    settings: MarkerSettings, table: Table, options: WriteOptions, instant: InstantTime
) -> MarkerWriter:
    """Open markers like `open_markers`, with the early detection in `settings`."""
    plain = open_markers(settings, table.storage, instant, ports=table.ports)
    if settings.early is None:
        return plain
    early = settings.early
    has_server = settings.kind != MarkerKind.DIRECT and settings.url is not None
    if has_server:
        return ServerDetectingMarkers(plain, table, instant)
    # Without a server the markers are direct, and so is the search.
    if not early.strategy.is_direct:
        early = replace(early, strategy=EarlyStrategy.TRANSACTIONAL_DIRECT)
    return DirectDetectingMarkers(plain, table, options, instant, early)


class ServerDetectingMarkers:
    """The asynchronous strategy: the server searches, and refuses markers after an early
    conflict.
    """

    def __init__(self, markers: MarkerWriter, table: Table, instant: InstantTime) -> None:
        self._markers = markers
        self._storage = table.storage
        self._instant = instant

    def create(self, marker: Marker) -> CreateResult:
        """Create a marker; the server refuses it after an early conflict of the instant."""
        return self._markers.create(marker)

    def create_all(self, markers: Iterable[Marker]) -> None:
        """Create many markers like `create`."""
        self._markers.create_all(markers)

    def confirm(self) -> None:
        """Check storage for an early conflict that the server recorded. Raises EarlyConflict for
        one; storage that fails is logged.
        """
        with _unless_blind(self._instant):
            raise_if_early_conflict(self._storage, self._instant)


class DirectDetectingMarkers:
    """The direct strategies: this process searches, before it creates and before each data file."""

    def __init__(
        self,
        markers: MarkerWriter,
        table: Table,
        options: WriteOptions,
        instant: InstantTime,
        early: EarlyDetection,
    ) -> None:
        self._markers = markers
        self._table = table
        self._options = options
        self._instant = instant
        self._early = early
        self._search = RivalSearch(table.storage, instant, early, table.ports.clock)
        self._claimed: list[Marker] = []

    def create(self, marker: Marker) -> CreateResult:
        """Search for rivals, under the table lock if the strategy is transactional, then create.
        Raises EarlyConflict before anything is written, otherwise like MarkerWriter.
        """
        with self._guard([marker]):
            return self._markers.create(marker)

    def create_all(self, markers: Iterable[Marker]) -> None:
        """Create markers like `create`, with one search for all of them."""
        new_markers = list(markers)
        with self._guard(new_markers):
            self._markers.create_all(new_markers)

    def confirm(self) -> None:
        """Search again for all markers made so far. Raises EarlyConflict; a failed search is
        logged.
        """
        self._reject_conflicts(self._claimed)

    @contextmanager
    def _guard(self, new_markers: list[Marker]) -> Iterator[None]:
        with self._lock_table():
            self._reject_conflicts([*self._claimed, *new_markers])
            yield
        self._claimed += new_markers

    @contextmanager
    def _lock_table(self) -> Iterator[None]:
        """Lock the table, so that no older writer registers between our search and our markers."""
        with ExitStack() as stack:
            if self._early.strategy is EarlyStrategy.TRANSACTIONAL_DIRECT:
                try:
                    stack.enter_context(table_lock(self._table, self._options).hold())
                except LakehouseError as error:
                    _log.warning("looking for rivals without the table lock: %s", error)
            yield

    def _reject_conflicts(self, markers: list[Marker]) -> None:
        storage, instant = self._table.storage, self._instant
        with _unless_blind(instant):
            raise_if_early_conflict(storage, instant)
            conflict = self._search.find(build_claims(instant, markers))
            if conflict is not None:
                record_early_conflict(storage, instant, conflict)
                raise early_conflict(instant, conflict)


@contextmanager
def _unless_blind(instant: InstantTime) -> Iterator[None]:
    try:
        yield
    except EarlyConflict:
        raise
    except (OSError, LakehouseError) as error:
        _log.warning("could not look for rivals: instant=%s error=%s", instant, error)
