"""Records of the metadata table's partition `files`, and how two of one key merge (metadata page
3.1 and 4).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import fastavro

from workers.errors import MalformedTable, UnsupportedTable
from workers.files.avro_container import parse_schema

ALL_PARTITIONS = "__all_partitions__"
"""The key of the record that lists the table's partitions."""
UNPARTITIONED = "."
"""The path of the only partition, where a table has none."""


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
