"""Reports of a driver's own Spark stages: about one a second at most, and none that says nothing
new.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from workers.ports import Ports
from workers.reporting import OperationReport, Progress, Reporter, ReportState, StageProgress
from workers.spark.engine_archive import is_connect
from workers.spark.stage_board import StageBoard

REPORT_EVERY_S: Final = 1.0
_LOOK_EVERY_S: Final = 2.0
"""At a Spark of this process; a Connect server speaks about as often by itself."""
_log = logging.getLogger(__name__)


def no_progress(_stages: Sequence[StageProgress]) -> None:
    """For jobs whose tasks lead to no end, such as a sink's: always None."""


class StageReports:
    """Sends what the Spark stages of one operation have done. Thread-safe; nothing here raises into
    the job or waits.
    """

    def __init__(
        self,
        operation_id: str,
        reporter: Reporter,
        ports: Ports,
        progress_of: Callable[[Sequence[StageProgress]], Progress | None] = no_progress,
    ) -> None:
        """`progress_of`: what the stages of the job at hand say of the whole operation, if they
        do.
        """
        self.board = StageBoard(ports.clock)
        self._operation_id = operation_id
        self._reporter = reporter
        self._ports = ports
        self._progress_of = progress_of
        self._lock = threading.Lock()
        self._sent_at_s = -REPORT_EVERY_S
        self._sent: tuple[StageProgress, ...] = ()

    @contextmanager
    def listening(self, spark: SparkSession) -> Iterator[None]:
        """Report what this session's jobs do until the block ends, and then how they ended."""
        if is_connect(spark):
            spark.registerProgressHandler(self._on_connect_progress)
            try:
                yield
            finally:
                self._end()
            return
        looks = self._ports.scheduler.every(
            _LOOK_EVERY_S, lambda: self._look(spark), name="sluice-stages"
        )
        try:
            yield
        finally:
            looks.stop()
            self._end()

    def send(self, progress: Progress | None = None) -> None:
        """Report the stages as they stand, unless that was said."""
        stages = self.board.stages()
        with self._lock:
            if _without_times(stages) == _without_times(self._sent):
                return
            self._sent, self._sent_at_s = stages, self._ports.clock.monotonic_s()
        self._reporter.send(
            OperationReport(
                operation_id=self._operation_id,
                state=ReportState.PROGRESS,
                message="spark runs" if progress else "",
                progress=progress,
                stages=stages,
            )
        )

    def _end(self) -> None:
        self.board.end()
        self.send()

    def _on_connect_progress(self, **state: Any) -> None:
        """`state` as a progress handler of PySpark gets it."""
        stages = list(state.get("stages") or ())
        self.board.note_connect(
            stages,
            int(state.get("inflight_tasks") or 0),
            str(state.get("operation_id") or ""),
            is_over=bool(state.get("done")),
        )
        if self._ports.clock.monotonic_s() - self._sent_at_s >= REPORT_EVERY_S:
            numbers = {stage.stage_id for stage in stages}
            at_hand = [stage for stage in self.board.stages() if stage.id in numbers]
            self.send(self._progress_of(at_hand))

    def _look(self, spark: SparkSession) -> None:
        try:
            self.board.note_classic(spark)
        except (Py4JError, ConnectionError) as error:
            _log.debug("Spark does not report its stages: %s", error)
            return
        self.send()


def _without_times(stages: Sequence[StageProgress]) -> list[tuple[object, ...]]:
    return [
        (stage.id, stage.state, stage.tasks, stage.done, stage.running, stage.failed)
        for stage in stages
    ]
