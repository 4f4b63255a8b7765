"""The latest slice of each file group of the metadata table: its files, in the order of merging
(metadata page 7).

The metadata table is merge-on-read: a slice is the base file with the greatest instant, and the log
files that were completed at that instant or later. It has its own timeline. Each of its
deltacommits has the request time of the table's action, and is completed before that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from workers.clock import InstantTime
from workers.files.names import LogFileName, parse_log_file
from workers.storage.base import Storage, join
from workers.timeline.archive import ArchivedTimeline
from workers.timeline.instant import Action
from workers.timeline.timeline import Timeline

_BASE: Final = re.compile(r"([A-Za-z0-9-]+)_[0-9]+-[0-9]+-[0-9]+_([0-9]{17})\.hfile")


@dataclass(frozen=True, slots=True)
class MetadataSlice:
    """The files of one file group that a reader merges."""

    file_id: str
    base: str | None
    """Its path in the metadata table; None where there are logs only."""
    logs: tuple[str, ...]
    """Paths in the order in which they were completed."""


def find_latest_slices(storage: Storage, partition: str) -> list[MetadataSlice]:
    """Return the latest slice of each file group, by file id. `storage` is that of the metadata
    table. Raises StorageFailed, MalformedTable.
    """
    completions = _Completions(storage)
    groups: dict[str, _Group] = {}
    for name in storage.list_names(partition):
        if base := _BASE.fullmatch(name):
            if completions.find(base[2]) is not None:
                groups.setdefault(base[1], _Group()).bases.append((base[2], name))
        elif log := parse_log_file(name):
            completed_at = completions.find(log.instant)
            if completed_at is not None:
                groups.setdefault(log.file_id, _Group()).logs.append((completed_at, log, name))
    return [group.latest(partition, file_id) for file_id, group in sorted(groups.items())]


@dataclass(slots=True)
class _Group:
    bases: list[tuple[InstantTime, str]] = field(default_factory=list)
    """(instant, name)."""
    logs: list[tuple[InstantTime, LogFileName, str]] = field(default_factory=list)
    """(completion time, parsed name, name)."""

    def latest(self, partition: str, file_id: str) -> MetadataSlice:
        begun_at, base = max(self.bases, default=("", None))
        logs = sorted(
            (completed_at, log.version, log.write_token, name)
            for completed_at, log, name in self.logs
            if completed_at >= begun_at
        )
        path = base and join(partition, base)
        return MetadataSlice(file_id, path, tuple(join(partition, name) for *_, name in logs))


class _Completions:
    """When instants of the metadata table were completed."""

    def __init__(self, storage: Storage) -> None:
        timeline = Timeline.load(storage)
        self._first = timeline.first_time
        self._active = {
            instant.requested_at: instant.completed_at
            for instant in timeline.instants
            if instant.action is not Action.SAVEPOINT
        }
        self._archived = ArchivedTimeline(storage)

    def find(self, requested_at: InstantTime) -> InstantTime | None:
        """Return when the instant was completed. None if it is pending, or unknown and not older
        than the timeline, which means that it was rolled back. An older instant that is not in the
        history counts as completed when it was requested.
        """
        if requested_at in self._active:
            return self._active[requested_at]
        if self._first is None or requested_at >= self._first:
            return None
        return self._archived.find_completion(requested_at) or requested_at
