"""New keys that two writers insert concurrently, where no file group shows the overlap.

Under an index that looks keys up, two writers that both find a new key nowhere put it into file
groups of their own. So the keys themselves are compared: the ranges in the footers of the files
that took inserts, then the filters where these have them, then the key columns. Nothing is read
while no competing commit inserted into a partition of ours (under a global index: anywhere).

A deleted key that a writer inserts again is a new one. While a log has its deleted row, the writer
appends it there, and the log counts it as an insert. Another writer may find it in another log, or
in none: a compaction removes deleted rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict, ConflictRule, FileGroupKey, WriteSet
from workers.errors import NotFound
from workers.files.base_file import read_base_file
from workers.files.base_keys import SortedKeys, find_stored_keys
from workers.files.key_range import KeyRange, can_overlap
from workers.files.log_block import AvroData, ParquetData
from workers.files.log_file import read_log_file
from workers.files.meta_columns import COMMIT_TIME, RECORD_KEY
from workers.index.bloom_filter import HashedKeys
from workers.index.file_keys import FileKeys, read_file_keys
from workers.merge.versions import combine_chunks
from workers.storage.base import Storage, join
from workers.table.table import Table
from workers.timeline.metadata import WRITER_KEY, CommitMetadata, WriteStat

KEYS_NAMED_MAX: Final = 10
MOVING: Final = frozenset(("CLUSTER", "COMPACT", "LOG_COMPACT"))
"""Operations that put rows elsewhere and bring none."""


class InsertedKeys:
    """The keys that a write inserted, to be found among the inserts of competing commits."""

    def __init__(self, table: Table, instant: InstantTime, metadata: CommitMetadata) -> None:
        self._storage = table.storage
        self._is_global = table.config.is_global
        self._ours = [
            _InsertedFile(table.storage, instant, stat) for stat in list_insert_stats(metadata)
        ]

    def find_conflict(
        self, ours: WriteSet, theirs: WriteSet, written: CommitMetadata
    ) -> Conflict | None:
        """Return the conflict with a completed commit, whose metadata is `written`; None if there
        is none.

        Raises MalformedTable, StorageFailed.
        """
        shared: dict[FileGroupKey, list[str]] = {}
        for stat in list_insert_stats(written) if self._ours else ():
            near = [
                file
                for file in self._ours
                if self._is_global or file.stat.partition_path == stat.partition_path
            ]
            for group, keys in self._find_keys_in(near, stat).items():
                shared.setdefault(group, []).extend(keys)
        return build_insert_conflict(ours, theirs, shared) if shared else None

    def _find_keys_in(
        self, near: list[_InsertedFile], theirs: WriteStat
    ) -> dict[FileGroupKey, list[str]]:
        """Return our file groups with the keys that are in their file too. If the file was
        rewritten and cleaned since, return all of them, without keys.
        """
        if not near:
            return {}
        try:
            their_keys: FileKeys | pa.Array[Any]
            if theirs.is_log:
                their_keys = read_log_keys(self._storage, theirs.path)
            else:
                their_keys = read_file_keys(self._storage, theirs.path)
            met_by_group = {file.group: file.find_common_keys(their_keys) for file in near}
        except NotFound:
            return {file.group: [] for file in near}
        return {group: keys for group, keys in met_by_group.items() if keys}


def list_insert_stats(metadata: CommitMetadata) -> list[WriteStat]:
    """Return the stats of files that may have taken new keys.

    Other engines count a deleted key that is inserted again as an update of the log that has it, so
    each of their logs with rows is included.
    """
    if metadata.operation_type.upper() in MOVING:
        return []
    counts_inserts = WRITER_KEY in metadata.extra_metadata
    return [
        stat
        for stat in metadata.stats
        if stat.num_inserts > 0 or (stat.is_log and stat.num_writes > 0 and not counts_inserts)
    ]


def read_log_keys(storage: Storage, path: str) -> pa.Array[Any]:
    """Return the record keys of all rows in a log file, without deletes. Raises NotFound,
    MalformedTable.
    """
    keys = [
        combine_chunks(block.table([RECORD_KEY]).column(RECORD_KEY)).cast(pa.string())
        for block in read_log_file(storage, path)
        if isinstance(block, ParquetData | AvroData)
    ]
    return pa.concat_arrays([pa.array([], pa.string()), *keys])


def build_insert_conflict(
    ours: WriteSet, theirs: WriteSet, shared: Mapping[FileGroupKey, Iterable[str]]
) -> Conflict:
    """Build the conflict over new keys. A key is in one file group, and the second to complete
    would put it into two.
    """
    named = list_keys(shared)
    what = f"{len(named)} new key(s) were inserted by another writer first"
    if not named:
        what = "keys that another writer inserted first cannot be read any more"
    return build_key_conflict(ours, theirs, shared, what, rule=ConflictRule.INSERTED_TWICE)


def list_keys(shared: Mapping[FileGroupKey, Iterable[str]]) -> list[str]:
    """Return the distinct keys of all file groups, sorted."""
    return sorted({key for keys in shared.values() for key in keys})


def build_key_conflict(
    ours: WriteSet,
    theirs: WriteSet,
    shared: Mapping[FileGroupKey, Iterable[str]],
    message: str,
    *,
    rule: ConflictRule,
) -> Conflict:
    """Build the conflict over the keys that both writers have, by file group."""
    named = list_keys(shared)
    return Conflict(
        kind="write",
        message=message,
        rival=theirs.instant,
        rival_writer=theirs.writer,
        file_groups=tuple(sorted(shared)),
        writer=ours.writer,
        rule=rule,
        keys=tuple(named[:KEYS_NAMED_MAX]),
        key_count=len(named),
    )


@dataclass(frozen=True)
class _InsertedFile:
    """A file of this write that took inserts."""

    storage: Storage
    instant: InstantTime
    stat: WriteStat

    @property
    def group(self) -> FileGroupKey:
        return self.stat.partition_path, self.stat.file_id

    @cached_property
    def range(self) -> KeyRange | None:
        return None if self.stat.is_log else read_file_keys(self.storage, self.stat.path).range

    @cached_property
    def keys(self) -> SortedKeys:
        """The keys that it got; in a log and in a rewritten file also those of updated rows. A
        writer that moves one of these to another file group conflicts with us in its old one.
        """
        if self.stat.is_log:
            return SortedKeys.of(read_log_keys(self.storage, self.stat.path))
        rows = read_base_file(self.storage, self.stat.path, [RECORD_KEY, COMMIT_TIME])
        if self.stat.prev_base_file:
            is_ours: Any = pc.equal(rows.column(COMMIT_TIME), pa.scalar(self.instant))
            rows = rows.filter(is_ours)
        return SortedKeys.of(rows.column(RECORD_KEY))

    @cached_property
    def hashed_keys(self) -> HashedKeys:
        return HashedKeys(self.keys.array)

    def find_common_keys(self, theirs: FileKeys | pa.Array[Any]) -> list[str]:
        """Return the keys that both inserted; `theirs` are the keys of a base file or of a log."""
        if isinstance(theirs, pa.Array):
            at = self.keys.find_positions(theirs, self.keys.everything)
            return self._without_updated(self.keys.array.take(pa.array(at)))
        if not can_overlap(self.range, theirs.range):
            return []
        left = np.flatnonzero(theirs.might_contain(self.hashed_keys))
        if not len(left):
            return []
        keys_in_question = SortedKeys(self.keys.array.take(left))
        common = keys_in_question.array.take(
            find_stored_keys(self.storage, theirs.path, keys_in_question)
        )
        return self._without_updated(common)

    def _without_updated(self, common: Any) -> list[str]:
        """Return the keys that our file did not have before: an updated key is not a new one."""
        former = self.stat.prev_base_file
        if former and len(common):
            sorted_keys = SortedKeys(common)
            path = join(self.stat.partition_path, former)
            is_new = np.ones(len(common), np.bool_)
            is_new[find_stored_keys(self.storage, path, sorted_keys)] = False
            common = common.filter(pa.array(is_new))
        new_keys: list[str] = common.to_pylist()
        return new_keys
