"""Rewrites file groups on Spark's executors: one task each, nothing but statuses comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from workers.services.local_runner import Runner
from workers.services.rewrite import GroupRewrite, RewriteContext, rewrite_group
from workers.services.rewriting import RunnerMaker
from workers.spark.failures import await_losers, ours_of, stop_tasks, tagged
from workers.spark.task_process import spare_next_task, task_ids
from workers.storage.local import LocalStorage
from workers.table.table import Table
from workers.timeline.metadata import WriteStat

_STATUS_SCHEMA = "status string"


def spark_runner(spark: SparkSession) -> RunnerMaker:
    """What `carry_out` takes as its `make_runner`; how many run at once is the session's affair."""

    def make(table: Table, sizes: Sequence[int], threads: int | None) -> Runner:
        return _SparkRunner(spark, table)

    return make


class _SparkRunner:
    def __init__(self, spark: SparkSession, table: Table) -> None:
        self._spark = spark
        self._table = table

    def __call__(
        self,
        context: RewriteContext,
        groups: Sequence[GroupRewrite],
        on_done: Callable[[int], None],
    ) -> list[WriteStat]:
        """Raises what a task raised, when nothing of the job runs any more."""
        tag = f"sluice-{context.instant}"
        try:
            with tagged(self._spark, tag):
                numbers = self._spark.range(0, len(groups), 1, len(groups))
                rewritten = numbers.mapInArrow(
                    partial(rewrite_numbered, context, tuple(groups)), _STATUS_SCHEMA
                ).collect()
        except PySparkException as error:
            stop_tasks(self._spark, tag, self._table.ports.clock)
            ours = ours_of(error)
            if ours is not None:
                raise ours from error
            raise
        on_done(len(rewritten))
        stats = [WriteStat(**json.loads(row.status)) for row in rewritten]
        await_losers(self._table, context.instant, [stat.path for stat in stats])
        return stats


def rewrite_numbered(
    context: RewriteContext, groups: Sequence[GroupRewrite], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rewrite the groups whose numbers come in; on executors."""
    spare_next_task()
    storage = LocalStorage(context.location)
    attempt = task_ids().attempt
    for batch in batches:
        stats = [
            rewrite_group(context, groups[int(number)], storage, task_attempt=attempt)
            for number in batch.column("id").to_numpy()
        ]
        texts = pa.array([json.dumps(asdict(stat)) for stat in stats], pa.string())
        yield pa.RecordBatch.from_arrays([texts], names=["status"])
