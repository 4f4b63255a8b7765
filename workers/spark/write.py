"""Write a Spark DataFrame: the driver begins and commits, tasks place rows and write file groups.

A first job lays the rows out by file group (`placement`); where keys are looked up, two more do
(`tagging`). The last one writes them: each task gets its share of the file groups, reads their
staged rows by path and answers with statuses. What is small is written by the driver, which then
holds all of it already. No task reads the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from workers.clock import InstantTime
from workers.concurrency.outcome import CommitOutcome
from workers.concurrency.sought_keys import Sought
from workers.errors import EarlyConflict, InvalidInput, LakehouseError
from workers.files.meta_columns import PARTITION_PATH
from workers.options.lock_options import PROVIDER, LockProvider
from workers.options.write_options import WriteOptions, write_options
from workers.spark.doom_watch import DoomWatch, is_doomed
from workers.spark.failures import await_losers, ours_of, stop_tasks, tagged
from workers.spark.holding import is_rolled_back
from workers.spark.key_partitions import groups_in_one_partition
from workers.spark.placement import PlacedRows, place_rows, stage_prepared
from workers.spark.session import TASKS_MAX
from workers.spark.shares import dealt, in_tasks
from workers.spark.tagging import tagged_groups
from workers.spark.task_process import task_ids
from workers.spark.types import to_arrow
from workers.storage.base import Storage, size_of
from workers.storage.opening import open_storage
from workers.table.table import Table
from workers.write.client import Transaction, WriteClient, WriteRequest
from workers.write.context import WriteContext
from workers.write.groups import RowGroup
from workers.write.handles import write_row_groups
from workers.write.lookup import candidates
from workers.write.placing import placed
from workers.write.prepare import SLOT
from workers.write.retrying import with_retries
from workers.write.sought import sought_by
from workers.write.staging import StagedGroup, by_file_group, read_staged
from workers.write.status import DeadLetterFile, TaskIds, WriteStatus

TaskWrite = Callable[[WriteContext, Sequence[StagedGroup]], list[WriteStatus]]
Written = tuple[list[WriteStatus], tuple[DeadLetterFile, ...], Sought | None]
"""Statuses of files, rows put aside, and keys that were looked for to delete them."""
JobRun = Callable[[str, DoomWatch], Written]
"""Runs the jobs of a write under a tag, by which they are cancelled."""
_TASK_BYTES = 4 << 20
"""Of staged rows and standing base files: an idle Python task costs more than it saves."""
_DRIVER_BYTES_MAX = 8 << 20
_DRIVER_GROUPS_MAX = 64
_DRIVER_LOOKUPS_MAX = 32
"""File groups whose keys the driver reads itself."""


def write_frame(
    table: Table,
    df: DataFrame,
    operation: str,
    stream: str | None,
    options: Mapping[str, str],
) -> CommitOutcome:
    """As `write_dataframe`, and again after a lost conflict as often as the options say."""

    def attempt(number: int) -> CommitOutcome:
        return write_dataframe(
            table, df, operation=operation, stream=stream, options=options, attempt=number
        )

    typed = write_options(options, table.config.mode_of(operation))
    return with_retries(table, typed, attempt)


def write_dataframe(
    table: Table,
    df: DataFrame,
    *,
    operation: str = "upsert",
    stream: str | None = None,
    options: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
    attempt: int = 1,
    attempts_max: int | None = None,
    before_commit: Callable[[InstantTime], None] | None = None,
) -> CommitOutcome:
    """Write and commit the frame as one instant. `extra` goes into the commit's metadata, and
    `attempt` when it is not the first one, of `attempts_max` or as many as the options say;
    `before_commit` is called with the instant when all its files are written.

    Raises InvalidInput before anything is written or with everything rolled back, MarkerRefused,
    LockTimeout, and Spark's own exception when the job failed.
    """
    request = WriteRequest(
        operation,  # type: ignore[arg-type] # begin() refuses an operation that it does not know.
        stream,
        tuple(sorted((extra or {}).items())),
        attempts_max=attempts_max,
        is_inferred=True,
    ).of_attempt(attempt)
    typed = write_options(options or {}, table.config.mode_of(operation))
    schema, spark = to_arrow(df.schema), df.sparkSession
    return write_found(table, spark, schema, request, typed, lambda _: df, before_commit)


def write_found(
    table: Table,
    spark: SparkSession,
    schema: pa.Schema,
    request: WriteRequest,
    options: WriteOptions,
    find: Callable[[WriteContext], DataFrame],
    before_commit: Callable[[InstantTime], None] | None = None,
) -> CommitOutcome:
    """Write the frame that `find` makes of the snapshot which the write starts from, under
    `schema`. Raises as `write_dataframe`, and as `find` with everything rolled back.
    """
    if options.lock.provider is LockProvider.IN_PROCESS:
        raise InvalidInput(
            "tasks of Spark are processes of their own, and an in-process lock keeps out threads "
            "only",
            write=f"{PROVIDER}={LockProvider.STORAGE}",
        )
    transaction = WriteClient(table, options).begin(schema, request)

    def run(tag: str, watch: DoomWatch) -> Written:
        return write_rows(find(transaction.context), transaction.context, tag, watch)

    return carry_out(table, transaction, spark, run, before_commit)


def carry_out(
    table: Table,
    transaction: Transaction,
    spark: SparkSession,
    run: JobRun,
    before_commit: Callable[[InstantTime], None] | None = None,
) -> CommitOutcome:
    """From the begun transaction to its outcome; raises as `write_dataframe`."""
    tag = f"sluice-{transaction.instant}"
    try:
        with DoomWatch(table, transaction.context, spark, tag) as watch:
            statuses, letters, sought = run(tag, watch)
        transaction.seeks(sought)
        await_losers(table, transaction.instant, [status.stat.path for status in statuses])
        if before_commit is not None:
            before_commit(transaction.instant)
    except BaseException as error:
        ours = ours_of(error) if isinstance(error, PySparkException) else None
        stop_tasks(spark, tag, table.ports.clock)
        if _is_undone(table, transaction.instant, ours or error):
            return transaction.end_undone()
        if ours is None and _is_lost(table, transaction.context, error):
            return transaction.lose_early()
        transaction.abort(str(ours) if ours else _in_one_line(error))
        if ours is not None:
            raise ours from error
        raise
    return transaction.commit(statuses, letters)


def _is_undone(table: Table, instant: InstantTime, error: BaseException) -> bool:
    """Whether the write ended because others rolled it back, and not for its rows."""
    can_be = isinstance(error, PySparkException | Py4JError | LakehouseError)
    is_of_rows = isinstance(error, InvalidInput)
    return can_be and not is_of_rows and is_rolled_back(table.storage, instant)


def _is_lost(table: Table, context: WriteContext, error: BaseException) -> bool:
    """Whether the write ended because of a rival. A cancelled job says nothing of why."""
    is_of_spark = isinstance(error, PySparkException | Py4JError)
    return isinstance(error, EarlyConflict) or (is_of_spark and is_doomed(table, context))


def write_rows(df: DataFrame, context: WriteContext, tag: str, watch: DoomWatch) -> Written:
    """Place and write the frame's rows. Raises InvalidInput, EarlyConflict, and Spark's own
    exception.
    """
    with tagged(df.sparkSession, tag):
        placed_rows = place_rows(df, context)
        statuses = _placed_rows_written(df.sparkSession, context, placed_rows, watch)
    sought = sought_by(
        context, placed_rows.here, placed_rows.staged, open_storage(context.location)
    )
    return statuses, placed_rows.letters, sought


def _placed_rows_written(
    spark: SparkSession, context: WriteContext, placed_rows: PlacedRows, watch: DoomWatch
) -> list[WriteStatus]:
    if not placed_rows.staged and not _asks_many(context, placed_rows.here):
        storage = open_storage(context.location)
        here = placed(context, placed_rows.here, storage)
        groups = list(here.groups())
        if _is_small(here.context, groups, storage):
            return write_row_groups(here.context, groups, TaskIds(), storage)
    return write_in_tasks(spark, context, placed_rows, write_owned, watch)


def _asks_many(context: WriteContext, rows: pa.Table) -> bool:
    """Whether so many file groups are asked for keys that it is a job of its own."""
    if context.config.keeps_keys_single:
        slots = {*rows.column(SLOT).unique().to_pylist()}
        return sum(slot in slots for _, slot in context.slices) > _DRIVER_LOOKUPS_MAX
    if not context.looks_up:
        return False
    partitions: list[Any] = rows.column(PARTITION_PATH).unique().to_pylist()
    return len(candidates(context, partitions)) > _DRIVER_LOOKUPS_MAX


def write_owned(context: WriteContext, groups: Sequence[StagedGroup]) -> list[WriteStatus]:
    """Write the file groups of this task; on executors. Others may write the same, in attempts of
    their own: which of them count, the commit's metadata says.
    """
    storage = open_storage(context.location)
    return write_row_groups(context, read_staged(groups, storage), task_ids(), storage)


def _is_small(context: WriteContext, groups: Sequence[RowGroup], storage: Storage) -> bool:
    """Whether a second job would cost more than it spreads."""
    if len(groups) > _DRIVER_GROUPS_MAX:
        return False
    rewritten = storage.at_once(partial(_rewritten_bytes, context, storage), groups)
    return sum(rewritten) <= _DRIVER_BYTES_MAX


def _rewritten_bytes(context: WriteContext, storage: Storage, group: RowGroup | StagedGroup) -> int:
    """Size of the base file that a write of this file group reads and writes anew; 0 if none."""
    file_slice = context.current_slice(group.partition, group.slot)
    if file_slice is None or file_slice.base_file is None:
        return 0
    if context.appends_log(group.partition, group.slot):
        return 0
    return size_of(storage, file_slice.base_file)


def write_in_tasks(
    spark: SparkSession,
    context: WriteContext,
    placed_rows: PlacedRows,
    write: TaskWrite,
    watch: DoomWatch | None,
    *,
    task_bytes: int = _TASK_BYTES,
) -> list[WriteStatus]:
    """The statuses of the attempts that Spark took; others may have written as well, or still do.

    Raises EarlyConflict, and Spark's own exception.
    """
    storage = open_storage(context.location)
    staged = list(placed_rows.staged)
    if placed_rows.here.num_rows:
        staged.append(stage_prepared(context, placed_rows.here, storage, "driver"))
    if context.looks_up:
        context, groups = tagged_groups(spark, context, staged, storage)
    elif context.config.keeps_keys_single:
        groups = groups_in_one_partition(spark, context, staged, storage)
    else:
        groups = by_file_group(staged)
    if watch is not None and groups:
        watch.claim(context, ((group.partition, group.slot) for group in groups))
    shares = _shares(context, groups, storage, task_bytes)
    answers = in_tasks(spark, context, partial(_written, write), shares)
    return [WriteStatus.from_json(one) for one in answers]


def _shares(
    context: WriteContext, groups: Sequence[StagedGroup], storage: Storage, task_bytes: int
) -> list[list[StagedGroup]]:
    """The file groups dealt out to tasks, about as much work to each."""
    if not groups:
        return []
    rewritten = storage.at_once(partial(_rewritten_bytes, context, storage), groups)
    weights = [one.bytes + size for one, size in zip(groups, rewritten, strict=True)]
    return dealt(groups, weights, min(len(groups), TASKS_MAX, 1 + sum(weights) // task_bytes))


def _written(write: TaskWrite, context: WriteContext, share: Sequence[StagedGroup]) -> list[str]:
    """On executors."""
    return [status.to_json() for status in write(context, share)]


def _in_one_line(error: BaseException) -> str:
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"
