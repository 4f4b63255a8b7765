"""Keys that two writers wrote to different partitions, in tables where a key is in one partition.

Each writer looked its keys up in the table that it started from, so only later commits can
conflict. By the bucket index a key has one bucket in all partitions, and the files of this bucket
contain the keys that were written or deleted. If two commits wrote a key, and not both in the same
single partition, the second would put it into two, or change a row that has moved. This holds in
non-blocking mode as well: logs of one file group merge, those of two do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict, ConflictRule, FileGroupKey, WriteSet
from workers.concurrency.inserted_keys import MOVING, build_key_conflict, list_keys
from workers.errors import NotFound
from workers.files.base_file import read_base_file, read_footer
from workers.files.log_block import AvroData, Deletes, ParquetData
from workers.files.log_file import read_log_file
from workers.files.meta_columns import COMMIT_TIME, RECORD_KEY
from workers.files.names import parse_bucket_number
from workers.merge.group_file import TOMBSTONES_KEY, read_tombstones
from workers.storage.base import Storage
from workers.table.table import Table
from workers.timeline.metadata import CommitMetadata, WriteStat

_NO_KEYS: Any = pa.array([], pa.string())


class KeyPartitions:
    """The keys that one write put into each partition, by the files that it wrote."""

    def __init__(self, table: Table, instant: InstantTime, metadata: CommitMetadata) -> None:
        self._storage = table.storage
        self._instant = instant
        self._ours = _group_by_bucket(metadata)
        self._touched: dict[int, dict[str, Any]] = {}

    def find_conflict(
        self, ours: WriteSet, theirs: WriteSet, written: CommitMetadata
    ) -> Conflict | None:
        """Return the conflict with a completed commit, whose metadata is `written`; None if there
        is none.

        Raises MalformedTable, StorageFailed.
        """
        split: dict[FileGroupKey, list[str]] = {}
        for bucket, stats in _group_by_bucket(written).items():
            mine = self._ours.get(bucket, [])
            if mine and len({stat.partition_path for stat in (*mine, *stats)}) > 1:
                split |= self._find_split_keys(bucket, stats, theirs.instant)
        return build_partition_conflict(ours, theirs, split) if split else None

    def _find_split_keys(
        self, bucket: int, stats: Iterable[WriteStat], rival: InstantTime
    ) -> dict[FileGroupKey, list[str]]:
        """Return our file groups with the keys that the other commit wrote in another partition. If
        files of the other commit are gone, return all of them, without keys.
        """
        groups = {stat.partition_path: stat.file_id for stat in self._ours[bucket]}
        try:
            theirs = _read_touched_keys(self._storage, stats, rival)
        except NotFound:
            return {group: [] for group in groups.items()}
        met_by_group: dict[FileGroupKey, list[str]] = {}
        for partition, keys in self._load_touched_keys(bucket).items():
            elsewhere = [touched for other, touched in theirs.items() if other != partition]
            is_met: Any = pc.is_in(keys, value_set=pa.concat_arrays([_NO_KEYS, *elsewhere]))
            if pc.any(is_met).as_py():
                met_by_group[partition, groups[partition]] = keys.filter(is_met).to_pylist()
        return met_by_group

    def _load_touched_keys(self, bucket: int) -> dict[str, Any]:
        if bucket not in self._touched:
            self._touched[bucket] = _read_touched_keys(
                self._storage, self._ours[bucket], self._instant
            )
        return self._touched[bucket]


def build_partition_conflict(
    ours: WriteSet, theirs: WriteSet, split: Mapping[FileGroupKey, Iterable[str]]
) -> Conflict:
    """Build the conflict over keys in two partitions. A key is in one partition, and the second to
    complete would put it into two.
    """
    named = list_keys(split)
    what = f"{len(named)} key(s) were brought to another partition by another writer first"
    if not named:
        what = "whether keys were brought to another partition first cannot be read any more"
    return build_key_conflict(ours, theirs, split, what, rule=ConflictRule.BROUGHT_APART)


def _group_by_bucket(metadata: CommitMetadata) -> dict[int, list[WriteStat]]:
    stats_by_bucket: dict[int, list[WriteStat]] = {}
    if metadata.operation_type.upper() in MOVING:
        return stats_by_bucket
    for stat in metadata.stats:
        bucket = parse_bucket_number(stat.file_id)
        if bucket is not None and stat.path:
            stats_by_bucket.setdefault(bucket, []).append(stat)
    return stats_by_bucket


def _read_touched_keys(
    storage: Storage, stats: Iterable[WriteStat], instant: InstantTime
) -> dict[str, Any]:
    """Return partition -> the keys that `instant` wrote or deleted there."""
    keys_by_partition: dict[str, list[Any]] = {}
    for stat in stats:
        read = (
            _read_log_keys(storage, stat.path)
            if stat.is_log
            else _read_base_keys(storage, stat, instant)
        )
        keys_by_partition.setdefault(stat.partition_path, []).extend(read)
    return {
        partition: pa.concat_arrays([_NO_KEYS, *keys]).unique()
        for partition, keys in keys_by_partition.items()
    }


def _read_log_keys(storage: Storage, path: str) -> Iterable[Any]:
    for block in read_log_file(storage, path):
        if isinstance(block, ParquetData | AvroData):
            yield _single(block.table([RECORD_KEY]).column(RECORD_KEY))
        elif isinstance(block, Deletes):
            yield pa.array([record.key for record in block.records], pa.string())


def _read_base_keys(storage: Storage, stat: WriteStat, instant: InstantTime) -> Iterable[Any]:
    """Yield the keys that the instant wrote into the base file or deleted from it, and no older
    ones. A write that deletes a row conflicts in its file group.
    """
    rows = [read_base_file(storage, stat.path, [RECORD_KEY, COMMIT_TIME])]
    if text := read_footer(storage, stat.path).get(TOMBSTONES_KEY):
        rows.append(read_tombstones(text, path=stat.path))
    for some in rows:
        is_of_instant: Any = pc.equal(some.column(COMMIT_TIME), pa.scalar(instant))
        yield _single(some.filter(is_of_instant).column(RECORD_KEY))


def _single(column: Any) -> Any:
    joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return joined.cast(pa.string())
