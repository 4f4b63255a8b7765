"""The list of a table's files in its metadata table: partitions, and the names and sizes of their
files (metadata page 3.1), with the records of the partition `files` (4) and its slices (7).

The metadata table is merge-on-read: a slice is the base file with the greatest instant, and the log
files that were completed at that instant or later. It has its own timeline. Each of its
deltacommits has the request time of the table's action, and is completed before that.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

import fastavro

from workers.clock import InstantTime
from workers.errors import LakehouseError, MalformedTable, UnsupportedTable
from workers.files.avro_container import parse_schema
from workers.files.log_block import Deletes, HFileData, MetadataBlock, Rollback
from workers.files.log_file import read_metadata_log
from workers.files.names import LogFileName, parse_log_file
from workers.metadata_table.hfile import HFile
from workers.storage.base import Storage, join
from workers.storage.below import StorageBelow
from workers.table_layout import METADATA_TABLE
from workers.timeline.archive import ArchivedTimeline
from workers.timeline.instant import Action
from workers.timeline.timeline import Timeline

_BASE: Final = re.compile(r"([A-Za-z0-9-]+)_[0-9]+-[0-9]+-[0-9]+_([0-9]{17})\.hfile")
ALL_PARTITIONS = "__all_partitions__"
"""The key of the record that lists the table's partitions."""
UNPARTITIONED = "."
"""The path of the only partition, where a table has none."""
FILES: Final = "files"
"""The partition of the metadata table that lists files."""


@dataclass(frozen=True, slots=True)
class MetadataSlice:
    """The files of one file group that a reader merges."""

    file_id: str
    base: str | None
    """Its path in the metadata table; None where there are logs only."""
    logs: tuple[str, ...]
    """Paths in the order in which they were completed."""


def find_latest_slices(storage: Storage, partition: str) -> list[MetadataSlice]:
    """Return the latest slice of each file group, by file id. `storage` is that of the metadata
    table. Raises StorageFailed, MalformedTable.
    """
    completions = _Completions(storage)
    groups: dict[str, _Group] = {}
    for name in storage.list_names(partition):
        if base := _BASE.fullmatch(name):
            if completions.find(base[2]) is not None:
                groups.setdefault(base[1], _Group()).bases.append((base[2], name))
        elif log := parse_log_file(name):
            completed_at = completions.find(log.instant)
            if completed_at is not None:
                groups.setdefault(log.file_id, _Group()).logs.append((completed_at, log, name))
    return [group.latest(partition, file_id) for file_id, group in sorted(groups.items())]


@dataclass(slots=True)
class _Group:
    bases: list[tuple[InstantTime, str]] = field(default_factory=list)
    """(instant, name)."""
    logs: list[tuple[InstantTime, LogFileName, str]] = field(default_factory=list)
    """(completion time, parsed name, name)."""

    def latest(self, partition: str, file_id: str) -> MetadataSlice:
        begun_at, base = max(self.bases, default=("", None))
        logs = sorted(
            (completed_at, log.version, log.write_token, name)
            for completed_at, log, name in self.logs
            if completed_at >= begun_at
        )
        path = base and join(partition, base)
        return MetadataSlice(file_id, path, tuple(join(partition, name) for *_, name in logs))


class _Completions:
    """When instants of the metadata table were completed."""

    def __init__(self, storage: Storage) -> None:
        timeline = Timeline.load(storage)
        self._first = timeline.first_time
        self._active = {
            instant.requested_at: instant.completed_at
            for instant in timeline.instants
            if instant.action is not Action.SAVEPOINT
        }
        self._archived = ArchivedTimeline(storage)

    def find(self, requested_at: InstantTime) -> InstantTime | None:
        """Return when the instant was completed. None if it is pending, or unknown and not older
        than the timeline, which means that it was rolled back. An older instant that is not in the
        history counts as completed when it was requested.
        """
        if requested_at in self._active:
            return self._active[requested_at]
        if self._first is None or requested_at >= self._first:
            return None
        return self._archived.find_completion(requested_at) or requested_at


class RecordType(IntEnum):
    """What a record of `files` lists."""

    PARTITIONS = 1
    FILES = 2


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a partition, or a partition, in one record."""

    size: int
    """In bytes; 0 for partitions and for what was deleted."""
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class FilesRecord:
    """What the record of one key lists: partition paths, or names of one partition's files."""

    kind: RecordType
    listed: Mapping[str, ListedFile]

    @classmethod
    def decode(cls, value: bytes, avro_schema: str) -> FilesRecord:
        """Decode a value of the HFile. Raises MalformedTable, UnsupportedTable for a record of
        another partition.
        """
        record = _decode_record(value, avro_schema)
        try:
            kind = RecordType(record["type"])
        except ValueError as error:
            raise UnsupportedTable("record lists no files", type=record["type"]) from error
        listed = record["filesystemMetadata"] or {}
        return cls(kind, {name: ListedFile(**_fields(fields)) for name, fields in listed.items()})

    def merge(self, newer: FilesRecord) -> FilesRecord:
        """Return this record after `newer` was written over it. A file that `newer` deletes is
        removed; a file of both gets the larger size.
        """
        listed = dict(self.listed)
        for name, file in newer.listed.items():
            older = listed.get(name)
            if file.is_deleted and older is not None and not older.is_deleted:
                del listed[name]
            elif older is not None and not older.is_deleted:
                listed[name] = replace(file, size=max(file.size, older.size))
            else:
                listed[name] = file
        return FilesRecord(newer.kind, listed)

    def get_sizes(self) -> dict[str, int]:
        """Return size in bytes by name, without deleted files."""
        return {name: file.size for name, file in self.listed.items() if not file.is_deleted}


def _decode_record(value: bytes, avro_schema: str) -> dict[str, Any]:
    schema = parse_schema(avro_schema)
    try:
        record: Any = fastavro.schemaless_reader(io.BytesIO(value), schema, None)
        return {"type": record["type"], "filesystemMetadata": record["filesystemMetadata"]}
    except Exception as error:  # fastavro raises what it stumbled on
        raise MalformedTable("record of the metadata table is not readable") from error


def _fields(file: Mapping[str, Any]) -> dict[str, Any]:
    return {"size": file["size"], "is_deleted": file["isDeleted"]}


_Records = dict[str, FilesRecord]


@dataclass(frozen=True, slots=True)
class MetadataListing:
    """The files of a table as its metadata table lists them."""

    partitions: Mapping[str, Mapping[str, int]]
    """Partition path (`""` where the table has none) -> file name -> size in bytes."""

    @classmethod
    def load(cls, storage: Storage, pending: frozenset[InstantTime]) -> MetadataListing:
        """Load the listing of the table in `storage`. Records of the `pending` instants, which are
        not completed, do not count yet.

        Raises StorageFailed, MalformedTable, UnsupportedTable.
        """
        below = StorageBelow(storage, METADATA_TABLE.path)
        slices = find_latest_slices(below, FILES)
        if len(slices) != 1:
            raise MalformedTable(
                "the metadata table has no file group of files", groups=len(slices)
            )
        records = _SliceReader(below, pending).read(slices[0])
        if ALL_PARTITIONS not in records:
            raise MalformedTable("the metadata table does not list the table's partitions")
        partition_sizes = records.pop(ALL_PARTITIONS).get_sizes()
        return cls(
            {
                "" if path == UNPARTITIONED else path: _sizes(records, path)
                for path in sorted(partition_sizes)
            }
        )


def _sizes(records: _Records, path: str) -> Mapping[str, int]:
    record = records.get(path)
    return record.get_sizes() if record else {}


@dataclass(frozen=True, slots=True)
class _SliceReader:
    storage: Storage
    pending: frozenset[InstantTime]

    def read(self, slice_: MetadataSlice) -> _Records:
        records: _Records = {}
        if slice_.base is not None:
            _merge(records, self._base(slice_.base))
        for block in self._blocks(slice_):
            if isinstance(block, Deletes):
                for deleted in block.records:
                    records.pop(deleted.key, None)
            elif isinstance(block, HFileData):
                _merge(records, _decode_records(bytes(block.content), block.avro_schema))
        return records

    def _base(self, path: str) -> _Records:
        try:
            return _decode_records(self.storage.read(path), None)
        except (MalformedTable, UnsupportedTable) as error:
            raise _with_path(error, path) from error

    def _blocks(self, slice_: MetadataSlice) -> list[MetadataBlock]:
        """Return the blocks that count: not of a pending instant, not rolled back by a
        later block.
        """
        counting: list[MetadataBlock] = []
        for path in slice_.logs:
            for block in read_metadata_log(self.storage, path):
                if isinstance(block, Rollback):
                    counting = [earlier for earlier in counting if earlier.instant != block.target]
                elif block.instant not in self.pending:
                    counting.append(block)
        return counting


def _decode_records(content: bytes, avro_schema: str | None) -> _Records:
    file = HFile.parse(content)
    schema = avro_schema or file.schema
    if schema is None:
        raise MalformedTable("HFile does not contain the schema of its values")
    return {key: FilesRecord.decode(value, schema) for key, value in file.iterate_entries()}


def _merge(records: _Records, newer: _Records) -> None:
    for key, record in newer.items():
        older = records.get(key)
        records[key] = older.merge(record) if older else record


def _with_path(error: LakehouseError, path: str) -> LakehouseError:
    return type(error)(error.message, **error.values, path=path)
