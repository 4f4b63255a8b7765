"""The jobs that place a frame's rows and write their file groups, or the driver in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from workers.concurrency.read_set import ReadSet
from workers.files.meta_columns import PARTITION_PATH
from workers.spark.doom_watch import DoomWatch
from workers.spark.failures import tagged
from workers.spark.job_names import job_named
from workers.spark.key_partitions import groups_in_one_partition
from workers.spark.placement import PlacedRows, place_rows, stage_prepared
from workers.spark.session import TASKS_MAX
from workers.spark.shares import dealt, in_tasks
from workers.spark.tagging import tagged_groups
from workers.spark.task_process import task_ids
from workers.storage.base import Storage, get_size
from workers.storage.opener import open_storage
from workers.write.context import WriteContext
from workers.write.groups import RowGroup
from workers.write.handles import write_row_groups
from workers.write.lookup import candidates
from workers.write.placement import place_batch
from workers.write.prepare import SLOT
from workers.write.read_set import build_read_set
from workers.write.staging import StagedGroup, by_file_group, read_staged
from workers.write.status import DeadLetterFile, TaskIds, WriteStatus

TaskWrite = Callable[[WriteContext, Sequence[StagedGroup]], list[WriteStatus]]
Written = tuple[list[WriteStatus], tuple[DeadLetterFile, ...], ReadSet]
"""Statuses of files, rows put aside, and what decided about the rows."""
_TASK_BYTES = 4 << 20
"""Of staged rows and standing base files: an idle Python task costs more than it saves."""
_DRIVER_BYTES_MAX = 8 << 20
_DRIVER_GROUPS_MAX = 64
_DRIVER_LOOKUPS_MAX = 32
"""File groups whose keys the driver reads itself."""


def write_rows(df: DataFrame, context: WriteContext, tag: str, watch: DoomWatch) -> Written:
    """Place and write the frame's rows. Raises InvalidInput, EarlyConflict, and Spark's own
    exception.
    """
    with tagged(df.sparkSession, tag):
        with job_named("place the rows"):
            placed_rows = place_rows(df, context)
        statuses = _placed_rows_written(df.sparkSession, context, placed_rows, watch)
    reads = build_read_set(
        context, placed_rows.here, placed_rows.staged, open_storage(context.location)
    )
    return statuses, placed_rows.letters, reads


def _placed_rows_written(
    spark: SparkSession, context: WriteContext, placed_rows: PlacedRows, watch: DoomWatch
) -> list[WriteStatus]:
    if not placed_rows.staged and not _asks_many(context, placed_rows.here):
        storage = open_storage(context.location)
        here = place_batch(context, placed_rows.here, storage)
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
    return get_size(storage, file_slice.base_file)


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
    with job_named("write file groups"):
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
