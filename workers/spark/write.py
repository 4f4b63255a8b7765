"""Write a Spark DataFrame: the driver begins and commits, tasks place rows and write file groups.

Only the delta crosses: a first pass adds to every row the task that owns its file group, Spark
shuffles the rows there, and each task writes its file groups and answers with statuses. No task
reads the timeline, and no row returns to the driver.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from workers import errors
from workers.clock import Clock, InstantTime
from workers.concurrency.outcome import CommitOutcome
from workers.config import write_options
from workers.errors import InstantRolledBack, LakehouseError
from workers.files.meta_columns import PARTITION_PATH
from workers.spark.process import TASK_KILL_WINDOW_S
from workers.spark.session import task_count
from workers.spark.types import to_arrow
from workers.storage.local import LocalStorage
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision
from workers.write.client import WriteClient, WriteRequest
from workers.write.context import WriteContext
from workers.write.handles import write_file_groups
from workers.write.prepare import BUCKET, prepare
from workers.write.status import TaskIds, WriteStatus

OWNER: Final = "_sluice_task"
"""The column that says which task writes a row."""

_STATUS_SCHEMA = "status string"
_OUR_ERROR = re.compile(r"workers\.errors\.(\w+): ([^\n]*)")
_log = logging.getLogger(__name__)


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
    transaction = WriteClient(table, write_options(options or {})).begin(
        to_arrow(df.schema), request
    )
    tag = f"sluice-{transaction.instant}"
    spark = df.sparkSession
    try:
        statuses = _run(df, transaction.context, tag)
        if before_commit is not None:
            before_commit(transaction.instant)
    except BaseException as error:
        ours = _ours(error) if isinstance(error, PySparkException) else None
        _stop_tasks(spark, tag, table.ports.clock)
        transaction.abort(str(ours) if ours else _in_one_line(error))
        if ours is not None:
            raise ours from error
        raise
    return transaction.commit(statuses)


def _run(df: DataFrame, context: WriteContext, tag: str) -> list[WriteStatus]:
    spark = df.sparkSession
    tasks = task_count(spark)
    placed = StructType([*df.schema.fields, StructField(OWNER, IntegerType(), False)])
    spark.addTag(tag)
    try:
        rows = (
            df.mapInArrow(partial(assign_owners, context, tasks), placed)
            .repartitionById(tasks, OWNER)
            .mapInArrow(partial(write_owned, context), _STATUS_SCHEMA)
            .collect()
        )
    finally:
        with suppress(PySparkException):
            spark.removeTag(tag)
    return [WriteStatus.from_json(row.status) for row in rows]


def assign_owners(
    context: WriteContext, tasks: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Each batch with its rows' owners; on executors. Rows of one file group have one owner.

    Raises InvalidInput for a row that the table cannot hold, before any file is written.
    """
    for batch in batches:
        prepared = prepare(context, batch)
        paths = prepared.column(PARTITION_PATH).combine_chunks().dictionary_encode()
        offsets = [zlib.crc32(str(path).encode()) for path in paths.dictionary.to_pylist()]
        starts = np.asarray(offsets, dtype=np.int64)[paths.indices.to_numpy()]
        owners = (starts + prepared.column(BUCKET).to_numpy()) % tasks
        column = pa.array(owners.astype(np.int32), pa.int32())
        yield batch.append_column(pa.field(OWNER, pa.int32(), nullable=False), column)


def write_owned(
    context: WriteContext, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the file groups of this task and yield their statuses; on executors."""
    received = [batch.drop_columns([OWNER]) for batch in batches if batch.num_rows]
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
    _take_back_if_fenced(context, statuses, storage)
    texts = pa.array([status.to_json() for status in statuses], pa.string())
    yield pa.RecordBatch.from_arrays([texts], names=["status"])


def _take_back_if_fenced(
    context: WriteContext, statuses: Iterable[WriteStatus], storage: LocalStorage
) -> None:
    """A rollback that was decided after our markers may have listed before our files were there."""
    if isinstance(decisions.read(storage, context.instant), RollbackDecision):
        for status in statuses:
            storage.delete(status.stat.path)
        raise InstantRolledBack("instant was rolled back under its task", instant=context.instant)


def _stop_tasks(spark: SparkSession, tag: str, clock: Clock) -> None:
    """End what the failed job still runs, so that the rollback's listing sees everything."""
    try:
        spark.interruptTag(tag)
    except PySparkException as error:
        _log.warning("could not interrupt the failed write: tag=%s error=%s", tag, error)
    clock.sleep(TASK_KILL_WINDOW_S)


def _in_one_line(error: BaseException) -> str:
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"


def _ours(error: PySparkException) -> LakehouseError | None:
    """The engine's own exception behind a failed task, of which Spark kept only the text."""
    found = _OUR_ERROR.findall(str(error))
    if not found:
        return None
    name, message = found[-1]
    kind: Any = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, LakehouseError)):
        return None
    ours = kind(message)
    assert isinstance(ours, LakehouseError)
    return ours
