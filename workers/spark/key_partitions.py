"""Staged rows of column groups whose keys are looked for in other partitions, in a job.

A task has some of the slots: the batch's keys of a slot are looked for in the file groups of that
slot alone. Where something is found the slot's rows are staged anew, with the states that go along.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from workers.files.meta_columns import RECORD_KEY
from workers.spark.job_names import job_named
from workers.spark.session import TASKS_MAX
from workers.spark.shares import dealt, in_tasks
from workers.spark.task_process import task_ids
from workers.storage.base import Storage, get_size
from workers.storage.opener import open_storage
from workers.write.context import WriteContext
from workers.write.groups import RowGroup
from workers.write.key_partitions import check_one_partition, has_keys_elsewhere
from workers.write.staging import StagedFile, StagedGroup, by_file_group, read_staged, stage

_LOOKUP_BYTES = 64 << 20
"""Of staged rows and standing base files: of both the keys are read."""
_ROWS, _ARRIVING, _LEAVING = "rows", "arriving", "leaving"


@dataclass(frozen=True, slots=True)
class _Work:
    slots: tuple[tuple[StagedGroup, ...], ...]
    partitions: tuple[str, ...]
    """Of all rows of the write."""


def groups_in_one_partition(
    spark: SparkSession, context: WriteContext, staged: Sequence[StagedFile], storage: Storage
) -> list[StagedGroup]:
    """All rows by file group, as `check_one_partition` settles them. Raises as `in_tasks`."""
    by_slot: dict[int, list[StagedGroup]] = {}
    for group in by_file_group(staged):
        by_slot.setdefault(group.slot, []).append(group)
    if not by_slot:
        return []
    slots = [tuple(some) for some in by_slot.values()]
    base_bytes = _base_file_bytes(context, by_slot, storage)
    weights = [sum(one.bytes for one in some) + base_bytes[some[0].slot] for some in slots]
    tasks = min(len(slots), TASKS_MAX, 1 + sum(weights) // _LOOKUP_BYTES)
    partitions = tuple({one.partition for some in slots for one in some})
    works = [_Work(tuple(some), partitions) for some in dealt(slots, weights, tasks)]
    with job_named("look for keys in other partitions"):
        answers = in_tasks(spark, context, _settled, works)
    for answer in answers:
        settled_groups = _groups_of(json.loads(answer))
        by_slot[settled_groups[0].slot] = settled_groups
    return [group for some in by_slot.values() for group in some]


def _base_file_bytes(
    context: WriteContext, slots: Iterable[int], storage: Storage
) -> dict[int, int]:
    """Of the base files of these slots, in all partitions."""
    base_bytes = dict.fromkeys(slots, 0)
    base_files = [
        (slot, one.base_file)
        for (_, slot), one in context.slices.items()
        if slot in base_bytes and one.base_file is not None
    ]
    sizes = storage.at_once(lambda base_file: get_size(storage, base_file[1]), base_files)
    for (slot, _), size in zip(base_files, sizes, strict=True):
        base_bytes[slot] += size
    return base_bytes


def _settled(context: WriteContext, work: _Work) -> list[str]:
    """On executors: of each slot that changes what was staged anew."""
    storage = open_storage(context.location)
    return [
        _staged(context, check_one_partition(context, read_staged(groups, storage), storage, named))
        for groups in work.slots
        if has_keys_elsewhere(
            context,
            list(read_staged(groups, storage, [RECORD_KEY])),
            storage,
            named := work.partitions,
        )
    ]


def _staged(context: WriteContext, groups: Sequence[RowGroup]) -> str:
    """The staged files as JSON: of rows, of states that arrive, of keys that leave."""
    storage, ids = open_storage(context.location), task_ids()
    parts = {
        _ROWS: [one for one in groups if one.rows.num_rows],
        _ARRIVING: [replace(one, rows=one.arriving) for one in groups if one.arriving is not None],
        _LEAVING: [replace(one, rows=one.leaving) for one in groups if one.leaving is not None],
    }
    files = {}
    for name, some in parts.items():
        if some:
            attempt = f"{name}-{groups[0].slot}-{ids.stage}-{ids.attempt}"
            files[name] = stage(some, storage, context.instant, attempt).to_json()
    return json.dumps(files)


def _groups_of(files: dict[str, str]) -> list[StagedGroup]:
    staged_by_name = {
        name: {
            (one.partition, one.slot): one
            for one in by_file_group([StagedFile.from_json(files[name])])
        }
        for name in files
    }
    rows, arriving, leaving = (
        staged_by_name.get(name, {}) for name in (_ROWS, _ARRIVING, _LEAVING)
    )
    groups = []
    for partition, slot in sorted({*rows, *leaving}):
        at = partition, slot
        group = rows.get(at) or StagedGroup(partition, slot, (), 0)
        if at in arriving:
            group = replace(
                group, arriving=arriving[at].pieces, bytes=group.bytes + arriving[at].bytes
            )
        if at in leaving:
            group = replace(group, leaving=leaving[at].pieces)
        groups.append(group)
    return groups
