"""While the tasks of a write run, the driver looks whether they work in vain, and ends their job:
the instant was rolled back by others, or early detection found a rival that wins.

A task that hears of it waits until the job is cancelled (`holding`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Final

from pyspark.sql import SparkSession

from workers.concurrency.conflicts import WriteSet
from workers.errors import EarlyConflict, LakehouseError
from workers.markers.early_conflict import (
    raise_if_early_conflict,
    read_early_conflict,
    record_early_conflict,
)
from workers.markers.rivals import RivalSearch
from workers.options.early_detection import EarlyDetection
from workers.spark.holding import is_rolled_back
from workers.spark.job_watch import FENCE_PERIOD_S, JobWatch
from workers.table.table import Table
from workers.write.context import WriteContext
from workers.write.planned_claims import build_claims

DOOMED: Final = "doomed"
"""What a task answers with when nobody cancelled it."""
_POLL_S = 0.25
_DIRECT_PERIOD_MS = 1_000
_log = logging.getLogger(__name__)


class DoomWatch(AbstractContextManager["DoomWatch"]):
    """The decision is looked for twice per heartbeat interval, and at least every second."""

    def __init__(self, table: Table, context: WriteContext, spark: SparkSession, tag: str) -> None:
        self._table = table
        self._context = context
        self._job = JobWatch(spark, tag, table.ports.scheduler)
        self._early = context.markers.early
        self._claims: WriteSet | None = None
        self._search: RivalSearch | None = None
        self._looked_at_s = 0.0

    def __enter__(self) -> DoomWatch:
        interval_s = self._context.options.heartbeat_interval_ms / 1000
        is_fenced = partial(is_rolled_back, self._table.storage, self._context.instant)
        self._job.ask_every(min(interval_s / 2, FENCE_PERIOD_S), is_fenced)
        if self._early is not None:
            self._job.ask_every(_POLL_S, self._is_doomed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._job.__exit__(kind, error, traceback)

    def claim(self, context: WriteContext, groups: Iterable[tuple[str, int]]) -> None:
        """What the tasks are about to write, as (partition, slot). Raises EarlyConflict."""
        if self._early is None:
            return
        storage, instant = self._table.storage, self._context.instant
        self._search = RivalSearch(storage, instant, self._early, self._table.ports.clock)
        self._claims = build_claims(context, groups)
        try:
            self._look()
            raise_if_early_conflict(storage, instant)
        except EarlyConflict:
            raise
        except (OSError, LakehouseError) as error:
            _log.warning("competing writers cannot be checked: instant=%s error=%s", instant, error)

    def _is_doomed(self) -> bool:
        instant = self._context.instant
        try:
            if self._is_time(self._early):
                self._look()
            return read_early_conflict(self._table.storage, instant) is not None
        except (OSError, LakehouseError) as error:
            _log.warning("competing writers cannot be checked: instant=%s error=%s", instant, error)
            return False

    def _is_time(self, early: EarlyDetection | None) -> bool:
        if early is None or self._claims is None:
            return False
        period_ms = _DIRECT_PERIOD_MS if early.strategy.is_direct else early.period_ms
        return self._table.ports.clock.monotonic_s() >= self._looked_at_s + period_ms / 1000

    def _look(self) -> None:
        assert self._search is not None
        assert self._claims is not None
        self._looked_at_s = self._table.ports.clock.monotonic_s()
        if (conflict := self._search.find(self._claims)) is not None:
            record_early_conflict(self._table.storage, self._context.instant, conflict)


def is_doomed(table: Table, context: WriteContext) -> bool:
    """Whether early detection has put down a rival that wins; False for writes without early
    detection.
    """
    return context.markers.early is not None and (
        read_early_conflict(table.storage, context.instant) is not None
    )
