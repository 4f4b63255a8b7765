"""Dead letters of a sink: files of records that the table rejected, with their coordinates.

A file is valid only if a commit names it. Rollback deletes the files of failed attempts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.files.arrow_streams import parquet_file
from workers.files.base_file import UNREADABLE
from workers.sink.batch import MOMENTS_END_MS, BadRecord, Source
from workers.sink.tables import (
    CLUSTER,
    COORDINATES,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOPIC,
    TOPIC_ID,
)
from workers.storage.opener import open_storage
from workers.table.schema_history import find_instant
from workers.table.table import Table
from workers.timeline.archive import list_archived_instants
from workers.timeline.metadata import (
    DEAD_LETTER_FILES_KEY,
    CommitMetadata,
    read_commit_metadata,
)
from workers.write.dead_letters import ERROR_COLUMN, INSTANT_COLUMN

KEY, VALUE, HEADERS = "key", "value", "headers"
DECODED = "_sluice_decoded"
_HEADER = pa.struct([pa.field("name", pa.string()), pa.field("value", pa.binary())])
DEAD_LETTER_SCHEMA = pa.schema(
    [
        pa.field(ERROR_COLUMN, pa.string()),
        *COORDINATES,
        pa.field(KEY, pa.binary()),
        pa.field(VALUE, pa.binary()),
        pa.field(HEADERS, pa.list_(_HEADER)),
        pa.field(DECODED, pa.bool_()),
    ]
)
READ_SCHEMA = pa.schema([*DEAD_LETTER_SCHEMA, pa.field(INSTANT_COLUMN, pa.string())])


def dead_letters_to_arrow(source: Source, bad: Sequence[BadRecord]) -> pa.Table:
    """Return the dead letters of these records as a table, sorted by offset."""
    bad = sorted(bad, key=lambda record: record.offset)
    moments = [_to_timestamp_us(record.timestamp_ms) for record in bad]
    columns: dict[str, pa.Array[Any]] = {
        ERROR_COLUMN: pa.array([record.cause for record in bad], pa.string()),
        CLUSTER: pa.array([source.cluster_id] * len(bad), pa.string()),
        TOPIC: pa.array([source.topic] * len(bad), pa.string()),
        TOPIC_ID: pa.array([source.topic_id] * len(bad), pa.string()),
        PARTITION: pa.array([source.partition] * len(bad), pa.int32()),
        OFFSET: pa.array([record.offset for record in bad], pa.int64()),
        TIMESTAMP: pa.array(moments, pa.int64()).cast(DEAD_LETTER_SCHEMA.field(TIMESTAMP).type),
        KEY: pa.array([record.key for record in bad], pa.binary()),
        VALUE: pa.array([record.value for record in bad], pa.binary()),
        HEADERS: pa.array(
            [[{"name": name, "value": value} for name, value in record.headers] for record in bad],
            DEAD_LETTER_SCHEMA.field(HEADERS).type,
        ),
        DECODED: pa.array([record.is_decoded for record in bad], pa.bool_()),
    }
    return pa.table(columns, schema=DEAD_LETTER_SCHEMA)


def to_bad_records(
    rows: pa.Table, offsets: Iterable[int], timestamps: Iterable[int], causes: Iterable[str]
) -> list[BadRecord]:
    """Convert decoded rows that the table rejects to bad records. Their value is the row
    as JSON.
    """
    return [
        BadRecord(
            int(offset),
            None,
            json.dumps(row, default=str).encode(),
            cause,
            _to_timestamp_ms(at),
            is_decoded=True,
        )
        for row, offset, at, cause in zip(
            rows.to_pylist(), offsets, timestamps, causes, strict=True
        )
    ]


def _to_timestamp_us(timestamp_ms: int | None) -> int | None:
    """Return the time in microseconds, or None if a column cannot store it."""
    is_time = timestamp_ms is not None and 0 <= timestamp_ms < MOMENTS_END_MS
    return timestamp_ms * 1000 if timestamp_ms is not None and is_time else None


def _to_timestamp_ms(timestamp_ms: int) -> int | None:
    return int(timestamp_ms) if timestamp_ms >= 0 else None


def list_dead_letter_files(
    table: Table, *, sink_key: str, sink_id: str, instant: InstantTime = ""
) -> list[str]:
    """List the names of the dead-letter files of this sink's commits, oldest first. Archived
    commits are included. With `instant`, list the files of that commit only.
    """
    by_completion: dict[str, CommitMetadata] = {}
    timeline = table.timeline()
    for archived in list_archived_instants(table.storage, with_content=True):
        if instant not in ("", archived.instant.requested_at):
            continue
        if archived.metadata and archived.instant.action.writes_data:
            by_completion[archived.instant.completed_at] = read_commit_metadata(archived.metadata)
    for written in timeline.list_completed_writes():
        if instant in ("", written.requested_at):
            metadata = find_instant(table, written)
            if metadata is not None:
                by_completion[written.completed_at] = metadata
    return [
        name
        for _, metadata in sorted(by_completion.items())
        if metadata.extra_metadata.get(sink_key) == sink_id
        for name in metadata.extra_metadata.get(DEAD_LETTER_FILES_KEY, "").split(",")
        if name
    ]


def read_dead_letters(path: str, names: Iterable[str], *, maximum: int = 10_000) -> pa.Table:
    """Return the newest `most` dead letters in these files of the directory `path`, oldest first.

    A missing file is skipped. Raises MalformedTable.
    """
    parts, count = [], 0
    for name in reversed(list(names)):
        if count >= maximum:
            break
        part = read_dead_letter_file(path, name)
        parts.append(part)
        count += part.num_rows
    letters = pa.concat_tables([READ_SCHEMA.empty_table(), *reversed(parts)])
    return letters.slice(max(0, letters.num_rows - maximum))


def read_dead_letter_file(path: str, name: str) -> pa.Table:
    """Return the dead letters of one file, or an empty table if the file is missing. Columns that
    an older file lacks are null.

    Raises MalformedTable.
    """
    try:
        with open_storage(path).open_data(name) as stream:
            stored = parquet_file(stream).read(use_threads=False)
        columns = [
            stored.column(field.name).cast(field.type)
            if field.name in stored.column_names
            else pa.nulls(stored.num_rows, field.type)
            for field in READ_SCHEMA
        ]
    except NotFound:
        return READ_SCHEMA.empty_table()
    except UNREADABLE as error:
        raise MalformedTable("dead-letter file is not readable", name=name) from error
    return pa.Table.from_arrays(columns, schema=READ_SCHEMA)
