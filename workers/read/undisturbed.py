"""Looking at a table while others change it: look again when what was seen has gone (case B16).

Between two looks some files of a commit that is being taken back may have been there and some not;
a cleaner may remove what was just listed. A reader never sees a raw missing file: it gets the rows
of one moment, or SnapshotChanged, or SnapshotExpired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from workers.concurrency.rolled_back_commits import find_rolled_back
from workers.errors import MalformedTable, NotFound, SnapshotChanged, SnapshotExpired
from workers.table.table import Table
from workers.timeline.instant import Action
from workers.timeline.timeline import Timeline

LOOKS_MAX = 3
_REMOVING = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE})
_Seen = TypeVar("_Seen")


def undisturbed(table: Table, look: Callable[[Timeline], _Seen]) -> _Seen:
    """What `look` saw, looked at again when the table changed under it.

    Raises SnapshotChanged, SnapshotExpired when files are missing that no change explains.
    """
    missing: NotFound | None = None
    for _ in range(LOOKS_MAX):
        timeline = table.timeline()
        try:
            seen = look(timeline)
        except (NotFound, MalformedTable) as error:
            cause = error if isinstance(error, NotFound) else error.__cause__
            if not isinstance(cause, NotFound):
                raise
            missing = cause
            if not _may_explain(timeline, table.timeline()):
                break  # Another look would leave it out without a word.
        else:
            if not find_rolled_back(table, timeline, table.timeline()):
                return seen
            missing = None
    if missing is not None:
        raise expired(missing) from missing
    raise SnapshotChanged("commits are being taken back", table=table.storage.location)


def expired(missing: NotFound) -> SnapshotExpired:
    """The error to raise when a file is gone that a plan reads."""
    return SnapshotExpired(
        "a file that this read needs is gone; read again, and keep more versions for longer reads"
        " (hoodie.cleaner.commits.retained)",
        **missing.values,
    )


def _may_explain(before: Timeline, after: Timeline) -> bool:
    """Whether something went on that removes files."""
    return before != after or any(one.action in _REMOVING for one in after.pending())
