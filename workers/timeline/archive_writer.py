"""Writes to the archived timeline: append, merge, tidy up. Under the table lock only.

Order: data file, `manifest_<N+1>`, `_version_`. The manifest is put if absent, so one of two
archivers wins. A manifest that was published before a crash is built upon, never replaced, so
instants that were once durable stay so for a process that stalls and then deletes (bug A12). Three
snapshots are kept for readers.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Sequence

import pyarrow as pa

from workers.errors import LeaseLost, NotFound
from workers.files.base_file import AVRO_SCHEMA_KEY, write_parquet
from workers.storage.base import Storage
from workers.table_layout import HISTORY
from workers.timeline.archive import (
    VERSION_PATH,
    ArchivedInstant,
    list_archived_instants,
    newest_completion,
    read_rows,
)
from workers.timeline.avro_schemas import LSM_INSTANT
from workers.timeline.history_files import (
    UNNAMED,
    HistoryFile,
    HistoryFiles,
    Manifest,
    NotedFile,
    NotedFiles,
    list_history,
    manifest_numbers,
    manifest_path,
    note_files,
    read_numbered,
)
from workers.timeline.timeline import Timeline

MERGE_AT = 10
"""Files of one level that become one of the next."""
_LEVEL_MAX = 9
_SNAPSHOTS_KEPT = 3
_ROW_VERSION = 1
_TYPES: dict[str, pa.DataType] = {
    "instantTime": pa.string(),
    "completionTime": pa.string(),
    "action": pa.string(),
    "metadata": pa.binary(),
    "plan": pa.binary(),
}
_SCHEMA = pa.schema(_TYPES).append(pa.field("version", pa.int32(), nullable=False))


def append(
    storage: Storage, instants: Sequence[ArchivedInstant], confirm: Callable[[], None]
) -> list[ArchivedInstant]:
    """Make `instants` durable in the history, merge due files, tidy up, and return the new
    instants.

    `confirm` raises LeaseLost when another process may hold the table lock. Archived instants are
    not written again (bug A11). Lost files are noted as lost before a manifest lacks them. Raises
    LeaseLost.
    """
    history = list_history(storage, is_fresh=True)
    noted = _note_lost(storage, history, confirm)
    manifest = Manifest(history.manifest.number, history.files)
    archived = _find_archived(storage, instants)
    new = [
        archived_instant
        for archived_instant in instants
        if (archived_instant.instant.requested_at, archived_instant.instant.action) not in archived
    ]
    if new:
        file = _write(storage, _rows(new), level=0)
        manifest = _publish(storage, (*manifest.files, file), confirm)
    elif manifest.files != history.manifest.files:
        manifest = _publish(storage, manifest.files, confirm)
    manifest = _merge(storage, manifest, confirm)
    if manifest.number:
        _point_to(storage, manifest.number)
        confirm()
        noted = _note_present(storage, manifest, noted)
        _tidy(storage, manifest, frozenset(noted.lost), confirm)
    return new


def _note_lost(storage: Storage, history: HistoryFiles, confirm: Callable[[], None]) -> NotedFiles:
    """Note the lost files, and drop from the note about them those that were put back."""
    named = [lost_file for lost_file in history.lost if lost_file.file.level != UNNAMED]
    if {lost_file.file.name for lost_file in named} == history.noted.lost.keys():
        return history.noted
    # The write that completed last is never archived: none of the lost ones completed later.
    latest = max(
        (instant.completed_at for instant in Timeline.load(storage).iterate_completed()),
        default=None,
    )
    lost = {
        lost_file.file.name: NotedFile(lost_file.file.size, lost_file.newest or latest)
        for lost_file in named
    }
    confirm()
    files = {
        name: noted_file for name, noted_file in history.noted.files.items() if name not in lost
    }
    return note_files(storage, history.noted, NotedFiles(files, lost))


def _note_present(storage: Storage, manifest: Manifest, noted: NotedFiles) -> NotedFiles:
    files = {
        file.name: noted.files.get(file.name)
        or NotedFile(file.size, newest_completion(storage, file))
        for file in manifest.files
    }
    lost = {name: note for name, note in noted.lost.items() if name not in files}
    return note_files(storage, noted, NotedFiles(files, lost))


def _find_archived(storage: Storage, instants: Sequence[ArchivedInstant]) -> set[tuple[str, str]]:
    first = min(
        (archived_instant.instant.requested_at for archived_instant in instants), default=None
    )
    if first is None:
        return set()
    archived = list_archived_instants(storage, requested_from=first, is_partial=True)
    return {
        (archived_instant.instant.requested_at, archived_instant.instant.action)
        for archived_instant in archived
    }


def _rows(instants: Sequence[ArchivedInstant]) -> pa.Table:
    ordered = sorted(instants, key=lambda archived: archived.instant)
    columns = {
        "instantTime": [archived_instant.instant.requested_at for archived_instant in ordered],
        "completionTime": [archived_instant.instant.completed_at for archived_instant in ordered],
        "action": [archived_instant.instant.action.value for archived_instant in ordered],
        "metadata": [archived_instant.metadata for archived_instant in ordered],
        "plan": [archived_instant.plan for archived_instant in ordered],
        "version": [_ROW_VERSION] * len(ordered),
    }
    return pa.table(columns, schema=_SCHEMA)


def _write(storage: Storage, rows: pa.Table, *, level: int) -> HistoryFile:
    stream = io.BytesIO()
    footer = {AVRO_SCHEMA_KEY: json.dumps(LSM_INSTANT, separators=(",", ":"))}
    write_parquet(stream, rows, footer=footer, codec="gzip", level=None)
    content = stream.getvalue()
    times = [str(time) for time in rows.column("instantTime").to_pylist()]
    file = HistoryFile(min(times), max(times), level, len(content))
    storage.put(file.path, content)
    return file


def _publish(
    storage: Storage, files: Sequence[HistoryFile], confirm: Callable[[], None]
) -> Manifest:
    # A torn manifest of a foreign writer keeps its number, so it cannot stop us (bug A12).
    number = max(manifest_numbers(storage), default=0) + 1
    manifest = Manifest(number, tuple(sorted(files)))
    confirm()
    if not storage.put_if_absent(manifest_path(manifest.number), manifest.encode()):
        raise LeaseLost("another archiver published this snapshot", number=manifest.number)
    _point_to(storage, manifest.number)
    return manifest


def _point_to(storage: Storage, number: int) -> None:
    """Set `_version_` to `number`, unless it is higher already."""
    content = str(number).encode()
    try:
        pointer = storage.read_tagged(VERSION_PATH)
    except NotFound:
        storage.put_if_absent(VERSION_PATH, content)
        return
    if not pointer.content.isdigit() or int(pointer.content) < number:
        storage.replace_if_match(VERSION_PATH, content, pointer.tag)
        # A Hadoop client checks what it reads against the checksum that it wrote itself.
        storage.delete(f"{HISTORY.path}/._version_.crc")


def _merge(storage: Storage, manifest: Manifest, confirm: Callable[[], None]) -> Manifest:
    for level in range(_LEVEL_MAX):
        same = [file for file in manifest.files if file.level == level]
        while len(same) >= MERGE_AT:
            due, same = same[:MERGE_AT], same[MERGE_AT:]
            rows = pa.concat_tables([_cast_rows(read_rows(storage, file)) for file in due])
            merged = _write(storage, rows.sort_by("instantTime"), level=level + 1)
            files = [file for file in manifest.files if file not in due]
            files.append(merged)
            manifest = _publish(storage, files, confirm)
    return manifest


def _cast_rows(rows: pa.Table) -> pa.Table:
    """Return a foreign writer's rows in our column order and types."""
    return rows.select(_SCHEMA.names).cast(_SCHEMA)


def _tidy(
    storage: Storage,
    manifest: Manifest,
    lost: Collection[str],
    confirm: Callable[[], None],
) -> None:
    """Remove old snapshots, files that no kept snapshot names, and incomplete files of a crash. A
    damaged file that counts as lost stays: a user may want to read the rest of it.

    The files are listed first, and the lease is confirmed then: a process that stalled in between
    could take a newer archiver's files for such files. Raises LeaseLost.
    """
    names = {"_version_", *lost}
    for number in sorted(manifest_numbers(storage), reverse=True)[:_SNAPSHOTS_KEPT]:
        if number <= manifest.number and (snapshot := read_numbered(storage, number)):
            names |= {f"manifest_{number}", *(file.name for file in snapshot.files)}
    doomed = []
    for file in storage.list_files(HISTORY.path):
        is_checksum = file.name.startswith(".") and file.name.endswith(".crc")
        if is_checksum and file.name[1:-4] in names:
            continue
        if file.name not in names:
            doomed.append(file.path)
    confirm()
    storage.delete_many(doomed)
