"""How large a record of the table is, as its newest commits tell it; what inserts are sized by."""

from __future__ import annotations

from itertools import islice

from workers.insert_sizing import COMMITS_READ_MAX, InsertSizing, told_record_bytes
from workers.table.schema_history import read_instant
from workers.table.view import FileSystemView
from workers.timeline.instant import Action

_TELLING = (Action.COMMIT, Action.DELTACOMMIT)
"""A clustering sorts rows, and so makes them smaller than those that are written next."""


def record_bytes(view: FileSystemView, sizing: InsertSizing) -> int:
    """Raises MalformedTable."""
    newest = (one for one in reversed(view.timeline.completed_writes()) if one.action in _TELLING)
    written: list[tuple[int, int]] = []
    for instant in islice(newest, COMMITS_READ_MAX):
        stats = [one for one in read_instant(view.table, instant).stats if not one.is_log]
        if instant.action is Action.DELTACOMMIT:
            written += [(one.bytes, one.num_writes) for one in stats]
        else:
            total = sum(one.bytes for one in stats), sum(one.num_writes for one in stats)
            written.append(total)
    return told_record_bytes(written, sizing)
