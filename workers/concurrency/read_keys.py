"""Keys that a write looked up, to delete them or to read their rows, and that left no trace in a
file.

A key that was found is deleted in its file group, and another writer of that file group conflicts
there. A key that was not found leaves no file. So the keys themselves are searched in later
commits: by the ranges and filters in footers, then by the key columns. Nothing is read while no
other commit wrote to a bucket or partition of these keys (under a global index: anywhere).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from workers.concurrency.conflicts import Conflict, ConflictRule, FileGroupKey, WriteSet
from workers.concurrency.inserted_keys import (
    MOVING,
    build_key_conflict,
    list_insert_stats,
    list_keys,
)
from workers.errors import NotFound
from workers.files.base_keys import SortedKeys, find_stored_keys
from workers.files.log_block import AvroData, Deletes, ParquetData
from workers.files.log_file import read_log_file
from workers.files.meta_columns import RECORD_KEY
from workers.files.names import parse_bucket_number
from workers.index.bloom_filter import HashedKeys
from workers.index.file_keys import read_file_keys
from workers.merge.group_state import has_group_deletes
from workers.storage.base import Storage
from workers.timeline.metadata import CommitMetadata, WriteStat


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """Some of the keys that a write looked up, and where."""

    partition: str | None
    """None for all partitions, as always if a key is once in the table."""
    bucket: int | None
    """None under a look-up index."""
    keys: SortedKeys
    besides: frozenset[FileGroupKey] = frozenset()
    """File groups in which they were found, and are deleted."""
    were_read: bool = False
    """Not to be deleted: their rows were read and are written back, so deletes are met as well."""
    may_change: bool = False
    """Of rows that were read: only deletes are met, of a row or of a column group in it."""

    def find_candidates(self, written: CommitMetadata) -> list[WriteStat]:
        """Return the stats of files in which a competing commit, whose metadata is `written`, may
        have put one of the keys.
        """
        takes_any = self.bucket is None
        return [
            stat
            for stat in (list_insert_stats(written) if takes_any else written.stats)
            if self.partition in (None, stat.partition_path)
            and (stat.partition_path, stat.file_id) not in self.besides
            and (takes_any or self._can_bring(stat))
        ]

    def _can_bring(self, stat: WriteStat) -> bool:
        """Check if the file may contain one of the keys. Logs of buckets do not separate new keys
        from others.
        """
        is_brought = stat.num_inserts > 0 or (
            stat.is_log and (stat.num_writes > 0 or self.were_read)
        )
        return is_brought and parse_bucket_number(stat.file_id) in (None, self.bucket)


ReadKeysSource: TypeAlias = Callable[[], Iterable[ReadKeys]]
"""Returns all keys that a write looked up. Called each time, because they may not fit in memory."""


@dataclass(frozen=True, slots=True)
class ReadKeysCheck:
    """The keys that a write looked up, to be found in competing commits; `storage` has their
    files.
    """

    storage: Storage
    source: ReadKeysSource

    def find_conflict(
        self, ours: WriteSet, theirs: WriteSet, written: CommitMetadata
    ) -> Conflict | None:
        """Return the conflict with a completed commit, whose metadata is `written`; None if there
        is none.

        Raises MalformedTable, StorageFailed.
        """
        if written.operation_type.upper() in MOVING:
            return None
        matches: dict[FileGroupKey, set[str]] = {}
        were_read = False
        for sought_keys in self.source() if written.stats else ():
            for stat in sought_keys.find_candidates(written):
                keys = self._find_keys_in(sought_keys, stat)
                if keys is None or keys:
                    group = stat.partition_path, stat.file_id
                    matches.setdefault(group, set()).update(keys or ())
                    were_read |= sought_keys.were_read
        if not matches:
            return None
        return (build_read_conflict if were_read else build_delete_conflict)(ours, theirs, matches)

    def _find_keys_in(self, sought_keys: ReadKeys, stat: WriteStat) -> list[str] | None:
        """Return the keys that the file contains; None if the file is gone."""
        try:
            if stat.is_log:
                keys_by_block = _find_log_keys(self.storage, stat.path, sought_keys)
                return sorted({key for some in keys_by_block for key in some})
            return _find_base_keys(self.storage, stat.path, sought_keys.keys)
        except NotFound:
            return None


def _find_base_keys(storage: Storage, path: str, keys: SortedKeys) -> list[str]:
    file_keys = read_file_keys(storage, path)
    left = np.flatnonzero(file_keys.might_contain(HashedKeys(keys.array)))
    if not len(left):
        return []
    keys_in_question = SortedKeys(keys.array.take(left))
    held: list[str] = keys_in_question.array.take(
        find_stored_keys(storage, path, keys_in_question)
    ).to_pylist()
    return held


def _find_log_keys(storage: Storage, path: str, sought_keys: ReadKeys) -> Iterator[list[str]]:
    for block in read_log_file(storage, path):
        stored: Any = None
        if isinstance(block, ParquetData | AvroData):
            stored = (
                _find_deleted_keys(block)
                if sought_keys.may_change
                else _get_keys(block.table([RECORD_KEY]))
            )
        elif sought_keys.were_read and isinstance(block, Deletes):
            stored = pa.array([record.key for record in block.records], pa.string())
        if stored is not None:
            at = sought_keys.keys.find_positions(stored, sought_keys.keys.everything)
            matches: Any = sought_keys.keys.array.take(pa.array(at))
            yield matches.to_pylist()


def _get_keys(rows: pa.Table) -> Any:
    return rows.column(RECORD_KEY)


def _find_deleted_keys(block: ParquetData | AvroData) -> Any:
    """Return the keys of states with a delete, in a table with column groups."""
    states = block.table()  # Hidden columns are not in the block's schema.
    return _get_keys(states.filter(pa.array(has_group_deletes(states))))


def build_delete_conflict(
    ours: WriteSet, theirs: WriteSet, matches: Mapping[FileGroupKey, Iterable[str]]
) -> Conflict:
    """Build the conflict over keys to delete. A row that was committed before its delete would
    stay, so the delete must run again.
    """
    named = list_keys(matches)
    what = f"{len(named)} key(s) to delete were inserted by another writer first"
    if not named:
        what = (
            "whether keys to delete were inserted by another writer first cannot be read any more"
        )
    return build_key_conflict(ours, theirs, matches, what, rule=ConflictRule.DELETED_UNSEEN)


def build_read_conflict(
    ours: WriteSet, theirs: WriteSet, matches: Mapping[FileGroupKey, Iterable[str]]
) -> Conflict:
    """Build the conflict over rows that were read. Their values would overwrite the newer ones of
    the other commit, or restore half of a deleted row.
    """
    named = list_keys(matches)
    what = f"{len(named)} row(s) were changed by another writer after they were read"
    if not named:
        what = "whether rows were changed by another writer since cannot be read any more"
    return build_key_conflict(ours, theirs, matches, what, rule=ConflictRule.CHANGED_SINCE_READ)
