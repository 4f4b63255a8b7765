"""Dead letters of a sink: records that the table cannot take, beside it, with their coordinates.

A file is kept only by the commit that names it; what other attempts left goes with their rollback.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.errors import MalformedTable, NotFound
from workers.files.base_file import UNREADABLE
from workers.sink.batch import BadRecord
from workers.sink.tables import COORDINATES, OFFSET, PARTITION, TIMESTAMP, TOPIC
from workers.storage.local import LocalStorage
from workers.table.table import Table
from workers.timeline.archive import archived_instants
from workers.timeline.metadata import (
    DEAD_LETTER_FILES_KEY,
    CommitMetadata,
    read_commit_metadata,
)
from workers.write.dead_letters import ERROR_COLUMN, INSTANT_COLUMN

KEY, VALUE = "key", "value"
LETTERS = pa.schema(
    [
        pa.field(ERROR_COLUMN, pa.string()),
        *COORDINATES,
        pa.field(KEY, pa.binary()),
        pa.field(VALUE, pa.binary()),
    ]
)


def letters_table(topic: str, partition: int, bad: Sequence[BadRecord]) -> pa.Table:
    """Sorted by offset."""
    bad = sorted(bad, key=lambda one: one.offset)
    moments = [None if one.timestamp_ms is None else one.timestamp_ms * 1000 for one in bad]
    columns: dict[str, pa.Array[Any]] = {
        ERROR_COLUMN: pa.array([one.cause for one in bad], pa.string()),
        TOPIC: pa.array([topic] * len(bad), pa.string()),
        PARTITION: pa.array([partition] * len(bad), pa.int32()),
        OFFSET: pa.array([one.offset for one in bad], pa.int64()),
        TIMESTAMP: pa.array(moments, pa.int64()).cast(LETTERS.field(TIMESTAMP).type),
        KEY: pa.array([one.key for one in bad], pa.binary()),
        VALUE: pa.array([one.value for one in bad], pa.binary()),
    }
    return pa.table(columns, schema=LETTERS)


def refused_rows(
    rows: pa.Table, offsets: Iterable[int], timestamps: Iterable[int], causes: Iterable[str]
) -> list[BadRecord]:
    """Rows that were decoded and that the table's rules refuse; the value is their JSON."""
    return [
        BadRecord(int(offset), None, json.dumps(row, default=str).encode(), cause, _moment(at))
        for row, offset, at, cause in zip(
            rows.to_pylist(), offsets, timestamps, causes, strict=True
        )
    ]


def _moment(timestamp_ms: int) -> int | None:
    return int(timestamp_ms) if timestamp_ms >= 0 else None


def committed_letters(table: Table, *, sink_key: str, sink_id: str) -> list[str]:
    """Names of the dead-letter files that commits of this sink keep, oldest first, archived commits
    among them.
    """
    found: dict[str, CommitMetadata] = {}
    timeline = table.timeline()
    for one in archived_instants(table.storage, with_content=True):
        if one.metadata and one.instant.action.writes_data:
            found[one.instant.completed_at or ""] = read_commit_metadata(one.metadata)
    for instant in timeline.completed_writes():
        content = table.storage.read(table.layout.path(instant))
        found[instant.completed_at or ""] = read_commit_metadata(content)
    return [
        name
        for _, metadata in sorted(found.items())
        if metadata.extra_metadata.get(sink_key) == sink_id
        for name in metadata.extra_metadata.get(DEAD_LETTER_FILES_KEY, "").split(",")
        if name
    ]


def read_letters(path: str, names: Iterable[str], *, most: int = 10_000) -> pa.Table:
    """The newest `most` letters of these files of the dead-letter directory, oldest first.

    A file that somebody took away is passed over. Raises MalformedTable.
    """
    storage, parts, count = LocalStorage(path), [], 0
    wanted = pa.schema([*LETTERS, pa.field(INSTANT_COLUMN, pa.string())])
    for name in reversed(list(names)):
        if count >= most:
            break
        try:
            with storage.open_data(name) as stream:
                part = pq.read_table(stream, columns=wanted.names)
        except NotFound:
            continue
        except UNREADABLE as error:
            raise MalformedTable("dead-letter file is not readable", name=name) from error
        parts.append(part.select(wanted.names).cast(wanted))
        count += part.num_rows
    letters = pa.concat_tables([wanted.empty_table(), *reversed(parts)])
    return letters.slice(max(0, letters.num_rows - most))
