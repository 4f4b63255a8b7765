"""The note of archived writes that still have data files, with the time when each became visible.

The archiver notes them in `.hoodie/.sluice/archived_writes` before their instants leave the active
timeline. So the current state, and every time whose files still exist, can be read when parts of
the history are lost. The note has one entry for each instant with files on storage: it is never
larger than the listing that every reader makes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.clock import InstantTime
from workers.errors import LeaseLost, MalformedTable, NotFound
from workers.json_text import read_json
from workers.storage.base import Storage
from workers.table_layout import ARCHIVED_WRITES


@dataclass(frozen=True, slots=True)
class ArchivedWrites:
    """The note: all writes with data files that were requested before the border."""

    border: InstantTime = ""
    """Empty until a note exists."""
    completed: Mapping[InstantTime, InstantTime] = field(default_factory=dict)
    """Requested -> completed; the request time again where the completion was unknown."""
    tag: str | None = None
    """What a replacement has to match."""

    def find_completion(self, requested_at: InstantTime) -> InstantTime | None:
        """Return when the write became visible; None if it has no file."""
        return self.completed.get(requested_at)

    def covers(self, requested_at: InstantTime) -> bool:
        """Check whether the note would name the write, had it completed and left files."""
        return requested_at < self.border


def read_archived_writes(storage: Storage) -> ArchivedWrites:
    """Return the note, an empty one before the first archive. Raises MalformedTable."""
    try:
        tagged = storage.read_tagged(ARCHIVED_WRITES.path)
    except NotFound:
        return ArchivedWrites()
    try:
        body = read_json(tagged.content)
        completed = {str(at): str(end) for at, end in body["completed"].items()}
        return ArchivedWrites(str(body["border"]), completed, tagged.tag)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedTable(
            "the note about archived writes is damaged; put it back from a copy, or delete it where"
            " the archived timeline is whole",
            path=ARCHIVED_WRITES.path,
        ) from error


def note_archived_writes(
    storage: Storage,
    former: ArchivedWrites,
    border: InstantTime,
    completed: Mapping[InstantTime, InstantTime],
) -> None:
    """Replace the note, under the table lock. Raises LeaseLost when another archiver did first."""
    body = {"border": max(border, former.border), "completed": dict(sorted(completed.items()))}
    content = json.dumps(body, separators=(",", ":")).encode()
    if former.tag is None:
        is_written = storage.put_if_absent(ARCHIVED_WRITES.path, content)
    else:
        is_written = storage.replace_if_match(ARCHIVED_WRITES.path, content, former.tag) is not None
    if not is_written:
        raise LeaseLost("another archiver noted the writes", path=ARCHIVED_WRITES.path)
