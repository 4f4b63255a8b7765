"""What a marker request asks storage about its instant: is it decided, and may its markers go?

The decision object is written by `concurrency`; here it is only looked for, whichever way it was
decided. It goes when the timeline is archived, and the fence stays: whatever is older than
`archived_before` is settled for ever. A marker counts only when the fence is looked at *after* the
marker is durable: a rollback that decides later reads it.
"""

from __future__ import annotations

from workers.clock import InstantTime
from workers.errors import InstantRolledBack
from workers.markers.marker import checked_instant
from workers.storage.base import Storage
from workers.table_layout import TIMELINE, TIMELINE_V1
from workers.timeline import decisions

_TIMELINES = (TIMELINE.path, TIMELINE_V1.path)
_PENDING_ENDINGS = (".requested", ".inflight")


def is_fenced(storage: Storage, instant: InstantTime) -> bool:
    """True once the instant is decided, either way: nothing may be added to it any more."""
    return decisions.is_settled(storage, checked_instant(instant))


def refuse_fenced(storage: Storage, instant: InstantTime) -> None:
    """Look whether markers may still be added to the instant. Raises InstantRolledBack when the
    instant is decided.
    """
    if is_fenced(storage, instant):
        raise InstantRolledBack("instant is decided, no marker can be added", instant=instant)


def is_settled(storage: Storage, instant: InstantTime) -> bool:
    """True when markers may go: decided by us, or no longer pending for a foreign writer."""
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
