"""The file groups of a table as storage lists them: every slice, with its sizes.

Files count from the moment their instant is completed, as for every reader (bug I1); a log belongs
to the newest base file that was requested before the log became visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.clock import InstantTime
from workers.errors import NotFound
from workers.files.names import parse_base_file, parse_log_file
from workers.files.partition import list_partitions
from workers.storage.base import FileInfo
from workers.table.table import Table
from workers.timeline.instant import Action
from workers.timeline.metadata import read_commit_metadata
from workers.timeline.timeline import Timeline

FILE_GROUPS_MAX = 20_000
"""More than these are counted, not kept."""

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFacts:
    base: FileInfo | None
    base_instant: InstantTime | None
    logs: tuple[FileInfo, ...] = ()
    instants: tuple[InstantTime, ...] = ()
    """Requested times of all that wrote into it, oldest first."""

    @property
    def log_bytes(self) -> int:
        return sum(log.size for log in self.logs)

    @property
    def bytes(self) -> int:
        return (self.base.size if self.base else 0) + self.log_bytes

    @property
    def file_count(self) -> int:
        return len(self.logs) + (self.base is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroupFacts:
    partition: str
    file_id: str
    slices: tuple[SliceFacts, ...]
    """Newest first; never empty."""
    is_replaced: bool


@dataclass(frozen=True, slots=True)
class FileListing:
    groups: tuple[FileGroupFacts, ...]
    left_out: int = 0


@dataclass(slots=True)
class _Files:
    bases: dict[InstantTime, FileInfo] = field(default_factory=dict)
    logs: list[tuple[InstantTime, InstantTime, FileInfo]] = field(default_factory=list)
    """(completion time, requested time, file)."""


def list_file_groups(
    table: Table, timeline: Timeline, archived: Mapping[InstantTime, InstantTime]
) -> FileListing:
    """`archived`: completion times by requested time, of what left the active timeline."""
    completed = {one.requested_at: one.completed_at or "" for one in timeline.completed()}
    completed |= {requested: done for requested, done in archived.items() if done}
    first = timeline.first_time
    is_old_layout = table.config.timeline_layout == 1

    def visible_at(instant: InstantTime) -> InstantTime | None:
        if (done := completed.get(instant)) is not None:
            return done
        return instant if first is None or instant < first else None

    groups: dict[_Key, _Files] = {}
    for partition in list_partitions(table.storage):
        for file in table.storage.list_files(partition):
            if (base := parse_base_file(file.name)) is not None:
                if visible_at(base.instant) is not None:
                    group = groups.setdefault((partition, base.file_id), _Files())
                    group.bases[base.instant] = file
            elif (log := parse_log_file(file.name)) is not None and not log.is_cdc:
                # Layout 1 names a log after its base.
                done = log.instant if is_old_layout else visible_at(log.instant)
                if done is not None:
                    group = groups.setdefault((partition, log.file_id), _Files())
                    group.logs.append((done, log.instant, file))
    replaced = _replaced(table, timeline)
    kept = sorted(groups)[:FILE_GROUPS_MAX]
    found = tuple(
        FileGroupFacts(
            partition=key[0],
            file_id=key[1],
            slices=_slices(groups[key]),
            is_replaced=key in replaced,
        )
        for key in kept
    )
    return FileListing(found, len(groups) - len(kept))


def _slices(files: _Files) -> tuple[SliceFacts, ...]:
    bases: list[InstantTime | None] = [*sorted(files.bases, reverse=True)]
    logs: dict[InstantTime | None, list[tuple[InstantTime, InstantTime, FileInfo]]] = {}
    for done, requested, file in sorted(files.logs, key=lambda log: (log[0], log[2].name)):
        owner = next((base for base in bases if base is not None and base <= done), None)
        logs.setdefault(owner, []).append((done, requested, file))
    if None in logs:
        bases.append(None)
    return tuple(
        SliceFacts(
            base=files.bases[base] if base is not None else None,
            base_instant=base,
            logs=tuple(file for *_, file in logs.get(base, [])),
            instants=tuple(
                sorted({one for _, one, _ in logs.get(base, [])} | ({base} if base else set()))
            ),
        )
        for base in bases
    )


def _replaced(table: Table, timeline: Timeline) -> set[_Key]:
    """File groups that a replacecommit of the active timeline took away."""
    replaced: set[_Key] = set()
    for instant in timeline.completed():
        if instant.action is not Action.REPLACECOMMIT:
            continue
        try:
            content = table.storage.read(table.layout.path(instant))
        except NotFound:  # Archived since the listing.
            continue
        gone = read_commit_metadata(content).partition_to_replace_file_ids
        replaced |= {(partition, one) for partition, ids in gone.items() for one in ids}
    return replaced
