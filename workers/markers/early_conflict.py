"""The early conflict of an instant that can no longer commit, in a file next to its markers.

Tasks, the driver and the marker server check this file, so it is enough that one of them finds the
conflict, and a restarted server still knows it. It is deleted with the markers. Never written for
an instant that is decided.
"""

from __future__ import annotations

import json
from dataclasses import replace

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict
from workers.errors import EarlyConflict, MalformedTable, NotFound
from workers.json_text import read_json
from workers.markers.fence import is_fenced
from workers.markers.marker import markers_directory
from workers.storage.base import Storage


def get_early_conflict_path(instant: InstantTime) -> str:
    """Return the file's path, relative to the table. Raises InvalidInput for an invalid instant
    time.
    """
    return f"{markers_directory(instant)}/EARLY_CONFLICT"


def read_early_conflict(storage: Storage, instant: InstantTime) -> Conflict | None:
    """Read the early conflict of this instant, or None. Raises MalformedTable when the file is not
    one of ours.
    """
    try:
        content = storage.read(get_early_conflict_path(instant))
    except NotFound:
        return None
    try:
        body = read_json(content)
        groups = tuple((str(partition), str(file_id)) for partition, file_id in body["file_groups"])
        return replace(Conflict(**{**body, "schemas": None}), file_groups=groups)
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedTable("early conflict is damaged", instant=instant) from error


def record_early_conflict(storage: Storage, instant: InstantTime, conflict: Conflict) -> None:
    """Record an early conflict. The first one stays; another is ignored."""
    if is_fenced(storage, instant):
        return
    storage.put_if_absent(get_early_conflict_path(instant), json.dumps(conflict.to_json()).encode())
    if is_fenced(storage, instant):
        # A rollback may have swept the directory before this brought it back.
        storage.delete(get_early_conflict_path(instant))
        if not storage.list_tree(markers_directory(instant)):
            storage.delete_tree(markers_directory(instant))


def raise_if_early_conflict(storage: Storage, instant: InstantTime) -> None:
    """Check for an early conflict of the instant. Raises EarlyConflict if one is recorded."""
    if (conflict := read_early_conflict(storage, instant)) is not None:
        raise early_conflict(instant, conflict)


def early_conflict(instant: InstantTime, conflict: Conflict) -> EarlyConflict:
    """Build the error for this conflict, with the rival and its writer among its values."""
    return EarlyConflict(
        conflict.message, instant=instant, rival=conflict.rival, writer=conflict.rival_writer
    )
