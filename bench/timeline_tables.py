"""Tables whose timelines and directories are large, written file by file: no rows, no locks.

Instants are a second apart and end before now, so that any writer may add to them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from workers.clock import SystemClock, format_instant
from workers.files.names import BaseFileName, LogFileName, bucket_file_id
from workers.files.partition import METADATA_NAME
from workers.lakehouse import create_table
from workers.schema.table_schema import TableSchema
from workers.storage.local import LocalStorage
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_writer import append
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.layout import TimelineLayout
from workers.timeline.metadata import SCHEMA_KEY, commit_metadata

_LAYOUT: Final = TimelineLayout()
_INSTANT_MS: Final = 1_000
_COMPLETED_AFTER_MS: Final = 400
_ARCHIVED_AT_ONCE: Final = 1_000
_TYPES: Final[dict[str, pa.DataType]] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "text": pa.string(),
    "part": pa.string(),
}


def instants(count: int) -> list[CompletedInstant]:
    """Completed ones, the last of them some seconds ago."""
    first_ms = SystemClock().now_ms() - (count + 10) * _INSTANT_MS
    return [_instant(first_ms + number * _INSTANT_MS) for number in range(count)]


def _instant(requested_ms: int) -> CompletedInstant:
    return CompletedInstant(
        format_instant(requested_ms),
        Action.DELTACOMMIT,
        State.COMPLETED,
        format_instant(requested_ms + _COMPLETED_AFTER_MS),
    )


def long_timeline(folder: Path, count: int, *, active: int) -> None:
    """A table of `count` instants, of which the last `active` are not archived."""
    storage = _table(folder)
    listed, content = instants(count), commit_content()
    archived = [ArchivedInstant(one, content) for one in listed[: count - active]]
    for start in range(0, len(archived), _ARCHIVED_AT_ONCE):
        append(storage, archived[start : start + _ARCHIVED_AT_ONCE], lambda: None)
    add_files(folder, listed[count - active :], content)


def commit_elsewhere(folder: Path, content: bytes) -> None:
    """One more commit, as another writer leaves it."""
    add_files(folder, [_instant(SystemClock().now_ms() - _COMPLETED_AFTER_MS)], content)


def add_files(folder: Path, listed: Sequence[CompletedInstant], content: bytes) -> None:
    """The three files of each."""
    (folder / _LAYOUT.directory).mkdir(parents=True, exist_ok=True)
    for instant in listed:
        for state in (State.REQUESTED, State.INFLIGHT):
            pending = Instant(instant.requested_at, instant.action, state)
            (folder / _LAYOUT.path(pending)).write_bytes(b"")
        (folder / _LAYOUT.path(instant)).write_bytes(content)


def commit_content() -> bytes:
    schema = TableSchema.from_arrow(pa.schema(_TYPES), table_name="t")
    extra = {SCHEMA_KEY: schema.avro_json}
    return commit_metadata([], extra=extra, operation_type="UPSERT").encode(Action.DELTACOMMIT)


def wide_table(folder: Path, *, partitions: int, file_groups: int, has_logs: bool) -> None:
    """Each file group with one base file, and one log file where asked for."""
    _table(folder)
    listed = instants(2)
    add_files(folder, listed, commit_content())
    for number in range(partitions):
        partition = folder / f"p{number:04d}"
        partition.mkdir()
        (partition / METADATA_NAME).write_text(
            f"#partition metadata\ncommitTime={listed[0].requested_at}\npartitionDepth=1\n"
        )
        for name in _names(listed, file_groups, has_logs):
            (partition / name).write_bytes(b"")


def _names(listed: Sequence[CompletedInstant], file_groups: int, has_logs: bool) -> Iterator[str]:
    first, second = listed
    for number in range(file_groups):
        file_id = bucket_file_id(number)
        yield BaseFileName(file_id, "0-0-0", first.requested_at).text
        if has_logs:
            yield LogFileName(file_id, second.requested_at, 1, "0-0-0").text


def _table(folder: Path) -> LocalStorage:
    shutil.rmtree(folder, ignore_errors=True)
    create_table(
        folder,
        name="t",
        schema=None,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    )
    return LocalStorage(folder)
