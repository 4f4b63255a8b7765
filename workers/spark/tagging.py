"""Staged rows on their way to file groups, under an index that looks keys up.

The first job staged rows by shares of their keys. A second one looks the keys up: each task has
some of the file groups and reads the keys of the batch, and of its files their keys, once. A third
one has shares of the keys: it tells updates from inserts and stages both anew, by file group. The
driver deals the inserts out by their counts, and hands pieces of staged rows to whoever writes a
file group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.index.bucket import shares_of_keys
from workers.spark.job_names import job_named
from workers.spark.session import TASKS_MAX
from workers.spark.shares import dealt, in_tasks
from workers.spark.task_process import task_ids
from workers.storage.base import Storage, get_size
from workers.storage.opener import open_storage
from workers.write.context import WriteContext
from workers.write.groups import row_groups, rows_by_share
from workers.write.insert_shares import UNPLACED, assign_staged_inserts
from workers.write.lookup import PLACES, Candidate, candidates, collect_batch_keys, find_places
from workers.write.placement import tag
from workers.write.prepare import SHARES, SLOT, build_prepared_schema
from workers.write.staging import (
    StagedFile,
    StagedGroup,
    by_file_group,
    read_staged,
    stage,
)
from workers.write.tagging import with_column

_LOOKUP_BYTES = 64 << 20
"""Of base files, as they stand: of these the keys are read."""
_TAG_BYTES = 16 << 20
_KEYS_BYTES_MAX = 1 << 30
"""Of staged rows whose keys a task holds at once."""
_Groups = tuple[StagedGroup, ...]


@dataclass(frozen=True, slots=True)
class _Lookup:
    file_groups: tuple[Candidate, ...]
    rows: _Groups


@dataclass(frozen=True, slots=True)
class _Tagging:
    rows: _Groups
    places: _Groups


def tagged_groups(
    spark: SparkSession, context: WriteContext, staged: Sequence[StagedFile], storage: Storage
) -> tuple[WriteContext, list[StagedGroup]]:
    """All rows by file group, from rows that were staged by shares. Runs two jobs.

    Raises as `in_tasks`.
    """
    shares = by_file_group(staged)
    if not shares:
        return context, []
    partitions = {path for file in staged for path in file.partitions}
    lookups = _lookups(candidates(context, partitions), shares, storage)
    with job_named("look keys up"):
        looked_up = in_tasks(spark, context, _looked_up, lookups)
    places = {one.slot: one for one in by_file_group(map(StagedFile.from_json, looked_up))}
    weights = [one.bytes for one in shares]
    tasks = min(len(shares), TASKS_MAX, 1 + sum(weights) // _TAG_BYTES)
    works = [
        _Tagging(tuple(some), tuple(places[one.slot] for one in some if one.slot in places))
        for some in dealt(shares, weights, tasks)
    ]
    with job_named("lay rows out by file group"):
        answers = in_tasks(spark, context, _tagged, works)
    files = [StagedFile.from_json(answer) for answer in answers]
    return assign_staged_inserts(context, files, storage)


def _lookups(
    file_groups: Sequence[Candidate], shares: Sequence[StagedGroup], storage: Storage
) -> list[_Lookup]:
    """Each file group with each part of the keys; there is one part unless they are very many."""
    if not file_groups:
        return []
    sizes = storage.at_once(lambda group: _bytes(group, storage), file_groups)
    tasks = min(len(file_groups), TASKS_MAX, 1 + sum(sizes) // _LOOKUP_BYTES)
    parts = 1 + sum(one.bytes for one in shares) // _KEYS_BYTES_MAX
    dealt_shares = dealt(shares, [one.bytes for one in shares], min(parts, len(shares)))
    return [
        _Lookup(tuple(files), tuple(keys))
        for keys in dealt_shares
        for files in dealt(file_groups, sizes, tasks)
    ]


def _bytes(candidate: Candidate, storage: Storage) -> int:
    return get_size(storage, candidate.slice.base_file) if candidate.slice.base_file else 0


def _looked_up(context: WriteContext, work: _Lookup) -> list[str]:
    """On executors."""
    storage = open_storage(context.location)
    columns = [RECORD_KEY, PARTITION_PATH]
    rows = [group.rows for group in read_staged(work.rows, storage, columns)]
    keys = collect_batch_keys(context, pa.concat_tables(rows))
    met = [one for one in work.file_groups if context.config.is_global or one.partition in keys]
    places = find_places(context, met, keys, storage)
    if places.num_rows == 0:
        return []
    shares = shares_of_keys(places.column(RECORD_KEY).combine_chunks(), SHARES)
    groups = rows_by_share(places, shares)
    return [stage(groups, storage, context.instant, _attempt("places")).to_json()]


def _tagged(context: WriteContext, work: _Tagging) -> list[str]:
    """On executors."""
    storage = open_storage(context.location)
    rows = [group.rows for group in read_staged(work.rows, storage)]
    places = [group.rows for group in read_staged(work.places, storage)]
    prepared = pa.concat_tables([build_prepared_schema(context).empty_table(), *rows])
    tagged = tag(context, prepared, pa.concat_tables([PLACES.empty_table(), *places]), storage)
    unplaced = pa.repeat(pa.scalar(UNPLACED, pa.int32()), tagged.inserts.num_rows)
    inserts = with_column(tagged.inserts, SLOT, unplaced)
    placed = pa.concat_tables([tagged.updates, inserts])
    if placed.num_rows == 0:
        return []
    staged = stage(row_groups(placed), storage, context.instant, _attempt("tagged"))
    revived, left = (
        tuple((*place, keys) for place, keys in counts.items())
        for counts in (tagged.revived, tagged.left)
    )
    return [replace(staged, revived=revived, left=left).to_json()]


def _attempt(what: str) -> str:
    ids = task_ids()
    return f"{what}-{ids.stage}-{ids.attempt}"
