"""Checks of an instant for marker requests: whether it is decided, and whether its markers may be
deleted.

The decision object is written by `concurrency`; here only its existence counts, for both decisions.
It is removed when the timeline is archived, and the fence stays: everything older than
`archived_before` is decided. A marker counts only when the fence is checked *after* the marker is
durable: a later rollback reads it.
"""

from __future__ import annotations

from workers.clock import InstantTime
from workers.errors import InstantRolledBack
from workers.markers.marker import validate_instant
from workers.storage.base import Storage
from workers.table_layout import TIMELINE, TIMELINE_V1
from workers.timeline import decisions

_TIMELINES = (TIMELINE.path, TIMELINE_V1.path)
_PENDING_ENDINGS = (".requested", ".inflight")


def is_fenced(storage: Storage, instant: InstantTime) -> bool:
    """Return True once the instant is decided, either way: nothing may be added to it."""
    return decisions.is_decided(storage, validate_instant(instant))


def raise_if_fenced(storage: Storage, instant: InstantTime) -> None:
    """Check that markers may still be added to the instant. Raises InstantRolledBack when the
    instant is decided.
    """
    if is_fenced(storage, instant):
        raise InstantRolledBack("instant is decided, no marker can be added", instant=instant)


def can_delete_markers(storage: Storage, instant: InstantTime) -> bool:
    """Return True when markers may be deleted: decided by us, or no longer pending for a foreign
    writer.
    """
    if is_fenced(storage, instant):
        return True
    names = [
        info.name
        for directory in _TIMELINES
        for info in storage.list_files(directory)
        if info.name.startswith(instant)
    ]
    pending = [name for name in names if name.endswith(_PENDING_ENDINGS)]
    return not pending or len(pending) < len(names)
