"""One instant's own files, decoded: what each of its states says, as storage has it now.

The only part of the mirror that reads storage while somebody waits: three small files of one
instant, when a person opens them. Never on the way to a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from controlplane.errors import ControlPlaneError, StorageUnavailable
from controlplane.mirror.storage import engine_table
from controlplane.tables.models import Table
from controlplane.tables.row_access import RowAccess
from workers.clock import InstantTime
from workers.errors import LakehouseError, MalformedTable, NotFound, StorageFailed
from workers.files.avro_container import decode_record
from workers.json_text import read_json
from workers.storage.base import FileInfo
from workers.table import table as engine
from workers.timeline.instant import Instant

BYTES_MAX = 8_000_000
"""A larger file is named, not decoded: a page is no place for it."""
_ORDER = ("requested", "inflight", "completed")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    state: str
    """requested, inflight or completed"""
    path: str
    bytes: int
    modified_ms: int
    content: Mapping[str, Any] | None
    """None for an empty file, and for one that cannot be decoded."""
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    partition: str
    path: str
    file_id: str
    kind: str
    """base or log"""
    rows: int
    inserts: int
    updates: int
    deletes: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPartition:
    partition: str
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedInstant:
    states: tuple[StateFile, ...]
    files: tuple[WrittenFile, ...]
    """What the commit wrote, biggest first; empty for what writes no data."""
    partitions: tuple[WrittenPartition, ...]


def decoded_instant(table: Table, access: RowAccess, requested_at: InstantTime) -> DecodedInstant:
    """The states that are in storage now; none for an instant that is not there (any more). What
    they say word for word may hold any value, and is for whoever sees all of them.

    Raises StorageUnavailable.
    """
    try:
        opened = engine_table(table)
        states = _state_files(opened, requested_at)
    except (LakehouseError, OSError) as error:
        text = error.message if isinstance(error, StorageFailed) else str(error)
        raise StorageUnavailable(text or "table storage does not answer: retry later") from error
    except ControlPlaneError as error:
        raise StorageUnavailable(error.message) from error
    last = states[-1].content if states else None
    files = tuple(sorted(_written(last or {}), key=lambda file: -file.bytes))
    if not access.sees_all:
        states = [replace(state, content=None) for state in states]
    return DecodedInstant(states=tuple(states), files=files, partitions=_by_partition(files))


def _state_files(opened: engine.Table, requested_at: InstantTime) -> list[StateFile]:
    states = [
        _decoded(opened, instant, file)
        for file in opened.storage.list_files(opened.layout.directory)
        if (instant := opened.layout.parse(file.name)) is not None
        and instant.requested_at == requested_at
    ]
    return sorted(states, key=lambda state: (_ORDER.index(state.state), state.path))


def _decoded(opened: engine.Table, instant: Instant, file: FileInfo) -> StateFile:
    content, problem = None, ""
    if file.size > BYTES_MAX:
        problem = "too large to show"
    elif file.size:
        try:
            content = _content(opened.storage.read(file.path))
        except NotFound:
            problem = "went away while it was read"
        except (MalformedTable, ValueError) as error:
            problem = str(error)[:300]
    return StateFile(
        state=instant.state.value,
        path=file.path,
        bytes=file.size,
        modified_ms=file.modified_ms,
        content=content,
        problem=problem,
    )


def _content(raw: bytes) -> Mapping[str, Any] | None:
    """Avro of table versions 8 and 9, JSON of version 6."""
    if not raw.lstrip().startswith(b"{"):
        return decode_record(raw)
    content = read_json(raw)
    return content if isinstance(content, dict) else None


def _written(content: Mapping[str, Any]) -> list[WrittenFile]:
    by_partition = content.get("partitionToWriteStats") or {}
    if not isinstance(by_partition, Mapping):
        return []
    return [
        _written_file(str(partition), stat)
        for partition, stats in by_partition.items()
        for stat in stats or []
        if isinstance(stat, Mapping)
    ]


def _written_file(partition: str, stat: Mapping[str, Any]) -> WrittenFile:
    return WrittenFile(
        partition=partition,
        path=str(stat.get("path") or ""),
        file_id=str(stat.get("fileId") or ""),
        kind="log" if stat.get("logFiles") is not None else "base",
        rows=_number(stat, "numWrites"),
        inserts=_number(stat, "numInserts"),
        updates=_number(stat, "numUpdateWrites"),
        deletes=_number(stat, "numDeletes"),
        bytes=_number(stat, "fileSizeInBytes") or _number(stat, "totalWriteBytes"),
    )


def _by_partition(files: tuple[WrittenFile, ...]) -> tuple[WrittenPartition, ...]:
    names = sorted({file.partition for file in files})
    return tuple(
        WrittenPartition(
            partition=name,
            files=sum(file.partition == name for file in files),
            rows=sum(file.rows for file in files if file.partition == name),
            bytes=sum(file.bytes for file in files if file.partition == name),
        )
        for name in names
    )


def _number(stat: Mapping[str, Any], key: str) -> int:
    value = stat.get(key)
    return int(value) if isinstance(value, int | float) else 0
