"""How the stages of a driver's own Spark jobs stand: put together from what Spark says of them.

A Connect server tells a session of the job at hand, in the thread that waits for it; a Spark of
this process is asked. Neither tells all: a Connect server names no failed tasks, and counts running
ones of a whole job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession

from workers.clock import Clock
from workers.reporting import StageProgress
from workers.spark.job_names import current_job_name

STAGES_MAX: Final = 20
"""So many are kept, the newest."""
_NAME_CHARS_MAX: Final = 80


class ConnectStage(Protocol):
    """A stage as a Connect server tells of it, `pyspark.sql.connect.shell.progress.StageInfo`."""

    stage_id: int
    num_tasks: int
    num_completed_tasks: int
    num_bytes_read: int
    done: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    stage: StageProgress
    job: str
    since_s: float


class StageBoard:
    """The newest stages, by their numbers. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[int, _Seen] = {}

    def note_connect(
        self, stages: Iterable[ConnectStage], running: int, job: str, *, is_over: bool
    ) -> None:
        """What a Connect server says of the job `job`: of which stages it knows, and how many tasks
        run. `is_over`: the job is, whatever its stages say.
        """
        known = list(stages)
        at_work = [stage.stage_id for stage in known if not stage.done]
        with self._lock:
            for stage in known:
                is_alone = at_work == [stage.stage_id]
                self._note(
                    job,
                    StageProgress(
                        id=stage.stage_id,
                        name=current_job_name.get()[:_NAME_CHARS_MAX],
                        state="done" if stage.done else "running",
                        tasks=stage.num_tasks,
                        done=stage.num_completed_tasks,
                        running=0 if stage.done or is_over else running if is_alone else None,
                        bytes_read=stage.num_bytes_read,
                    ),
                )
            if is_over:
                self._end(job)

    def note_classic(self, spark: SparkSession) -> None:
        """Ask the Spark of this process. Raises Py4JError where it has gone."""
        tracker: Any = spark.sparkContext.statusTracker()
        active = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        with self._lock:
            gone = self._seen.keys() - {info.stageId for info in active if info is not None}
            for number in gone:
                self._end(self._seen[number].job)
            for info in filter(None, active):
                self._note(
                    str(info.stageId),
                    StageProgress(
                        id=info.stageId,
                        # Spark's own name says which line of which file began the job.
                        name=str(info.name).partition(" at ")[0][:_NAME_CHARS_MAX],
                        state="running",
                        tasks=info.numTasks,
                        done=info.numCompletedTasks,
                        running=info.numActiveTasks,
                        failed=info.numFailedTasks,
                    ),
                )

    def end(self) -> None:
        """No job runs any more."""
        with self._lock:
            for job in {seen.job for seen in self._seen.values()}:
                self._end(job)

    def stages(self) -> tuple[StageProgress, ...]:
        """`STAGES_MAX` at most, the newest last."""
        with self._lock:
            return tuple(self._seen[number].stage for number in sorted(self._seen))

    def _note(self, job: str, stage: StageProgress) -> None:
        now_s = self._clock.monotonic_s()
        before = self._seen.get(stage.id)
        since_s = before.since_s if before else now_s
        elapsed_ms = int((now_s - since_s) * 1000)
        self._seen[stage.id] = _Seen(replace(stage, elapsed_ms=elapsed_ms), job, since_s)
        for number in sorted(self._seen)[:-STAGES_MAX]:
            del self._seen[number]

    def _end(self, job: str) -> None:
        for number, seen in self._seen.items():
            if seen.job == job and seen.stage.state == "running":
                is_whole = seen.stage.done >= seen.stage.tasks
                ended = replace(seen.stage, state="done" if is_whole else "ended", running=0)
                self._seen[number] = replace(seen, stage=ended)
