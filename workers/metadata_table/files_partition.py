"""The list of a table's files in its metadata table: partitions, and the names and sizes of their
files (metadata page 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from workers.clock import InstantTime
from workers.errors import LakehouseError, MalformedTable, UnsupportedTable
from workers.files.log_block import Deletes, HFileData, MetadataBlock, Rollback
from workers.files.log_file import read_metadata_log
from workers.metadata_table.hfile import HFile
from workers.metadata_table.records import ALL_PARTITIONS, UNPARTITIONED, FilesRecord
from workers.metadata_table.slices import MetadataSlice, find_latest_slices
from workers.storage.base import Storage
from workers.storage.below import StorageBelow
from workers.table_layout import METADATA_TABLE

FILES: Final = "files"
"""The partition of the metadata table that lists files."""
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
