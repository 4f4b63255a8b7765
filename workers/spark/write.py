"""Write a Spark DataFrame: the driver begins and commits, tasks place rows and write file groups.

A first pass adds to every row the number of its file group, for which only keys and partitions
cross to Python. Spark brings the rows of one number together, and each task writes its file groups
and answers with statuses: whole rows cross once. No task reads the timeline, and no row returns to
the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from workers.clock import InstantTime
from workers.concurrency.outcome import CommitOutcome
from workers.config import write_options
from workers.errors import InstantRolledBack, InvalidInput
from workers.spark.failures import await_losers, ours_of, stop_tasks
from workers.spark.placement import FILE_GROUP, with_file_groups
from workers.spark.types import to_arrow
from workers.storage.local import LocalStorage
from workers.table.table import Table
from workers.timeline import decisions
from workers.write.client import WriteClient, WriteRequest
from workers.write.context import WriteContext
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds, WriteStatus

TaskWrite = Callable[[WriteContext, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_STATUS_SCHEMA = "status string"


def write_dataframe(
    table: Table,
    df: DataFrame,
    *,
    operation: str = "upsert",
    stream: str | None = None,
    options: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
    before_commit: Callable[[InstantTime], None] | None = None,
) -> CommitOutcome:
    """Write and commit the frame as one instant. `extra` goes into the commit's metadata;
    `before_commit` is called with the instant when all its files are written.

    Raises InvalidInput before anything is written or with everything rolled back, MarkerRefused,
    InstantRolledBack, LockTimeout, and Spark's own exception when the job failed.
    """
    request = WriteRequest(
        operation,  # type: ignore[arg-type] # begin() refuses an operation that it does not know.
        stream,
        tuple(sorted((extra or {}).items())),
    )
    typed = write_options(options or {})
    if typed.dead_letter_path:
        raise InvalidInput("dead letters are written for Arrow data only, not for data frames")
    transaction = WriteClient(table, typed).begin(to_arrow(df.schema), request)
    tag = f"sluice-{transaction.instant}"
    spark = df.sparkSession
    try:
        statuses = run_tasks(df, transaction.context, tag)
        await_losers(table, transaction.instant, [status.stat.path for status in statuses])
        if before_commit is not None:
            before_commit(transaction.instant)
    except BaseException as error:
        ours = ours_of(error) if isinstance(error, PySparkException) else None
        stop_tasks(spark, tag, table.ports.clock)
        transaction.abort(str(ours) if ours else _in_one_line(error))
        if ours is not None:
            raise ours from error
        raise
    return transaction.commit(statuses)


def run_tasks(
    df: DataFrame, context: WriteContext, tag: str, write: TaskWrite | None = None
) -> list[WriteStatus]:
    """The statuses of the attempts that Spark took; others may have written as well, or still do.

    `write` runs in the tasks; `write_owned` unless something is to go wrong. Raises Spark's own
    exception.
    """
    spark = df.sparkSession
    spark.addTag(tag)
    try:
        # No number of tasks is named, so that adaptive execution chooses one by the rows' bytes.
        rows = (
            with_file_groups(df, context)
            .repartition(FILE_GROUP)
            .mapInArrow(partial(write or write_owned, context), _STATUS_SCHEMA)
            .collect()
        )
    finally:
        with suppress(PySparkException):
            spark.removeTag(tag)
    return [WriteStatus.from_json(row.status) for row in rows]


def write_owned(
    context: WriteContext, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the file groups of this task and yield their statuses; on executors."""
    received = [batch.drop_columns([FILE_GROUP]) for batch in batches if batch.num_rows]
    if not received:
        return
    storage = LocalStorage(context.location)
    task = TaskContext.get()
    assert task is not None, "this runs on executors"
    # The attempt id is unique in the application, so retries and speculative copies never meet.
    ids = TaskIds(task.partitionId(), task.stageId(), task.taskAttemptId())
    prepared = prepare(context, pa.Table.from_batches(received))
    received.clear()
    statuses = write_file_groups(context, prepared, ids, storage)
    _take_back_if_decided(context, statuses, storage)
    texts = pa.array([status.to_json() for status in statuses], pa.string())
    yield pa.RecordBatch.from_arrays([texts], names=["status"])


def _take_back_if_decided(
    context: WriteContext, statuses: Iterable[WriteStatus], storage: LocalStorage
) -> None:
    """A decision that came after our markers may have listed before our files were there.

    A commit is decided when its tasks have answered, and we have not: it is another attempt's.
    """
    if decisions.read(storage, context.instant) is not None:
        for status in statuses:
            storage.delete(status.stat.path)
        raise InstantRolledBack("instant was decided under its task", instant=context.instant)


def _in_one_line(error: BaseException) -> str:
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"
