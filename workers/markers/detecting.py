"""Markers of a write that looks for rivals: before its markers are made, and before each data file.

A rival that cannot be looked for is no reason to fail: the commit looks again (invariant EC2).
Whoever finds a conflict records it, so that all other tasks of the write stop as well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from workers.clock import InstantTime
from workers.concurrency.settling import table_lock
from workers.errors import EarlyConflict, LakehouseError
from workers.markers.base import CreateResult, MarkerSettings, MarkerWriter
from workers.markers.doom import early_conflict, record_doom, refuse_doomed
from workers.markers.marker import Marker
from workers.markers.opening import open_markers
from workers.markers.rivals import RivalSearch, claims_of
from workers.options.early_detection import EarlyDetection, EarlyStrategy
from workers.options.write_keys import MarkerKind
from workers.options.write_options import WriteOptions
from workers.table.table import Table

_log = logging.getLogger(__name__)


def open_detecting(
    settings: MarkerSettings, table: Table, options: WriteOptions, instant: InstantTime
) -> MarkerWriter:
    """As `open_markers`, with the early detection that `settings` ask for."""
    plain = open_markers(settings, table.storage, instant, ports=table.ports)
    if settings.early is None:
        return plain
    early = settings.early
    has_server = settings.kind != MarkerKind.DIRECT and settings.url is not None
    if has_server:
        return ServerDetected(plain, table, instant)
    if not early.strategy.is_direct:  # Without a server the markers are direct, hence the look too.
        early = replace(early, strategy=EarlyStrategy.TRANSACTIONAL_DIRECT)
    return DirectlyDetected(plain, table, options, instant, early)


class ServerDetected:
    """The asynchronous strategy: the server looks, and refuses markers of whoever is doomed."""

    def __init__(self, markers: MarkerWriter, table: Table, instant: InstantTime) -> None:
        self._markers = markers
        self._storage = table.storage
        self._instant = instant

    def create(self, marker: Marker) -> CreateResult:
        """As MarkerWriter says; the server refuses markers of an instant that it found doomed."""
        return self._markers.create(marker)

    def create_all(self, markers: Iterable[Marker]) -> None:
        """As `create`, for many."""
        self._markers.create_all(markers)

    def confirm(self) -> None:
        """Look in storage for the server's verdict once more. Raises EarlyConflict when it recorded
        one; storage that fails is logged.
        """
        with _unless_blind(self._instant):
            refuse_doomed(self._storage, self._instant)


class DirectlyDetected:
    """The direct strategies: this process looks, before it creates and before each data file."""

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
        """Look for rivals, under the table lock where the strategy is transactional, then create.

        Raises EarlyConflict before anything is written, otherwise as MarkerWriter says.
        """
        with self._guarded([marker]):
            return self._markers.create(marker)

    def create_all(self, markers: Iterable[Marker]) -> None:
        """As `create`, with one look for all of them."""
        wanted = list(markers)
        with self._guarded(wanted):
            self._markers.create_all(wanted)

    def confirm(self) -> None:
        """Look again for all markers made so far: EarlyConflict. A look that fails is logged."""
        self._refuse_met(self._claimed)

    @contextmanager
    def _guarded(self, wanted: list[Marker]) -> Iterator[None]:
        with self._locked():
            self._refuse_met([*self._claimed, *wanted])
            yield
        self._claimed += wanted

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """So that no older writer registers between our look and our markers."""
        with ExitStack() as stack:
            if self._early.strategy is EarlyStrategy.TRANSACTIONAL_DIRECT:
                try:
                    stack.enter_context(table_lock(self._table, self._options).held())
                except LakehouseError as error:
                    _log.warning("looking for rivals without the table lock: %s", error)
            yield

    def _refuse_met(self, markers: list[Marker]) -> None:
        storage, instant = self._table.storage, self._instant
        with _unless_blind(instant):
            refuse_doomed(storage, instant)
            conflict = self._search.find(claims_of(instant, markers))
            if conflict is not None:
                record_doom(storage, instant, conflict)
                raise early_conflict(instant, conflict)


@contextmanager
def _unless_blind(instant: InstantTime) -> Iterator[None]:
    try:
        yield
    except EarlyConflict:
        raise
    except (OSError, LakehouseError) as error:
        _log.warning("could not look for rivals: instant=%s error=%s", instant, error)
