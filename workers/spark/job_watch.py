"""While a Spark job runs, its driver asks again and again whether it works in vain, and ends it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final

from pyspark.sql import SparkSession

from workers.ports import RepeatingTask, Scheduler
from workers.spark.failures import interrupt

FENCE_PERIOD_S: Final = 1.0
"""Between two looks whether the job's instant was rolled back by others, at most."""


class JobWatch(AbstractContextManager["JobWatch"]):
    """For what runs under `tag` in the block. Questions are asked in threads of their own."""

    def __init__(self, spark: SparkSession, tag: str, scheduler: Scheduler) -> None:
        self._spark = spark
        self._tag = tag
        self._scheduler = scheduler
        self._repetitions: list[RepeatingTask] = []

    def ask_every(self, period_s: float, is_in_vain: Callable[[], bool]) -> None:
        """`is_in_vain` raises nothing."""

        def look() -> None:
            # Again and again, for the next job may just have begun.
            if is_in_vain():
                interrupt(self._spark, self._tag)

        self._repetitions.append(self._scheduler.every(period_s, look, name="sluice-job-watch"))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for repetition in self._repetitions:
            repetition.stop()
