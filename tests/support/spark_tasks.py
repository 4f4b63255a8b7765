"""A Spark write that always runs in tasks, by a function of the test's own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from workers.spark.doom_watch import DoomWatch
from workers.spark.failures import tagged
from workers.spark.placement import place_rows
from workers.spark.row_jobs import TaskWrite, write_in_tasks
from workers.write.context import WriteContext
from workers.write.status import WriteStatus


def run_tasks(
    df: DataFrame,
    context: WriteContext,
    tag: str,
    write: TaskWrite,
    *,
    task_bytes: int,
    watch: DoomWatch | None = None,
) -> list[WriteStatus]:
    """As `write_rows`, always in tasks, by `write`, and `task_bytes` are enough for one."""
    with tagged(df.sparkSession, tag):
        placed = place_rows(df, context)
        return write_in_tasks(df.sparkSession, context, placed, write, watch, task_bytes=task_bytes)
