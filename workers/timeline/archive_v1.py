"""Reads of the archived timeline of layout 1 (table version 6): Avro records in Hudi log files,
`.hoodie/<folder>/.commits_.archive.<N>_<token>`, one record per instant and state.

Only completed instants are returned. Their content has the form of their own files: commits as
JSON, everything else as an Avro container. Layout 1 orders by request times, here too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from workers.clock import InstantTime
from workers.errors import InvalidInput, MalformedTable
from workers.files.avro_container import encode_record
from workers.files.log_file import read_archive_records
from workers.storage.base import Storage, join
from workers.table_layout import TIMELINE_V1
from workers.timeline.archive import ArchivedInstant
from workers.timeline.avro_schemas import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    ROLLBACK_METADATA,
    SAVEPOINT_METADATA,
)
from workers.timeline.instant import Action, CompletedInstant, State

_FILE = re.compile(r"\.commits_\.archive\.([0-9]{1,9})_[0-9-]+")
_AS_JSON: Final = {
    Action.COMMIT: "hoodieCommitMetadata",
    Action.DELTACOMMIT: "hoodieCommitMetadata",
    Action.REPLACECOMMIT: "hoodieReplaceCommitMetadata",
}
_AS_AVRO: Final[Mapping[Action, tuple[str, Mapping[str, Any]]]] = {
    Action.CLEAN: ("hoodieCleanMetadata", CLEAN_METADATA),
    Action.ROLLBACK: ("hoodieRollbackMetadata", ROLLBACK_METADATA),
    Action.SAVEPOINT: ("hoodieSavePointMetadata", SAVEPOINT_METADATA),
}
_Key = tuple[InstantTime, Action]


def list_archived_instants(
    storage: Storage,
    folder: str,
    *,
    requested_from: InstantTime | None = None,
    completed_until: InstantTime | None = None,
    with_content: bool = False,
) -> list[ArchivedInstant]:
    """List the instants of a layout 1 archive. Raises MalformedTable."""
    completed: dict[_Key, Mapping[str, Any]] = {}
    plans: dict[_Key, Mapping[str, Any]] = {}
    for record in _records(storage, folder):
        try:
            key = (str(record["commitTime"]), Action(str(record["actionType"])))
        except (KeyError, ValueError):  # An unknown action has no meaning here.
            continue
        state = str(record.get("actionState") or State.COMPLETED).lower()
        if state == State.COMPLETED:
            completed[key] = record
        elif state == State.REQUESTED:
            plans[key] = record
    return [
        _to_archived(key, completed[key], plans.get(key), with_content=with_content)
        for key in sorted(completed)
        if (requested_from is None or key[0] >= requested_from)
        and (completed_until is None or key[0] <= completed_until)
    ]


def archive_bytes(storage: Storage, folder: str) -> int:
    """Return the size of the archive's files in bytes; 0 when nothing is archived. It changes as
    they do.
    """
    return sum(size for _, size in _files(storage, folder))


def _records(storage: Storage, folder: str) -> Iterator[Mapping[str, Any]]:
    for path, _ in _files(storage, folder):
        yield from read_archive_records(storage, path)


def _files(storage: Storage, folder: str) -> list[tuple[str, int]]:
    directory = join(TIMELINE_V1.path, folder)
    matches = [(_FILE.fullmatch(file.name), file) for file in storage.list_files(directory)]
    numbered = [(int(name[1]), file) for name, file in matches if name is not None]
    return [(file.path, file.size) for _, file in sorted(numbered, key=lambda pair: pair[0])]


def _to_archived(
    key: _Key,
    record: Mapping[str, Any],
    requested: Mapping[str, Any] | None,
    *,
    with_content: bool,
) -> ArchivedInstant:
    requested_at, action = key
    instant = CompletedInstant(requested_at, action, State.COMPLETED, requested_at)
    if not with_content:
        return ArchivedInstant(instant)
    plan = (requested or {}).get("hoodieCleanerPlan")
    try:
        return ArchivedInstant(
            instant, _content(action, record), encode_record(CLEANER_PLAN, plan) if plan else None
        )
    except (KeyError, TypeError, ValueError, InvalidInput) as error:
        raise MalformedTable(
            "archived instant is not readable", instant=requested_at, action=action
        ) from error


def _content(action: Action, record: Mapping[str, Any]) -> bytes | None:
    if metadata := record.get(_AS_JSON.get(action, "")):
        return json.dumps(metadata).encode()
    name, schema = _AS_AVRO.get(action, ("", {}))
    metadata = record.get(name)
    return encode_record(schema, metadata) if metadata else None
