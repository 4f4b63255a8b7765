"""The file groups that a compaction would merge: the backlog of logs, and the choice among them by
pure rules over the figures of each file group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.table.creation import CREATION_OPERATION
from workers.table.file_group import FileSlice
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_services.compaction.settings import CompactionSettings, Strategy
from workers.table_services.slices import sum_file_sizes, to_planned_slice
from workers.timeline.instant import Action
from workers.timeline.pending_plans import pending_file_groups
from workers.timeline.service_plans import CompactionPlanFile, PlannedSlice
from workers.timeline.timeline import Timeline

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file group with logs that no pending plan holds."""

    slice: PlannedSlice
    base_bytes: int
    log_bytes: int

    @property
    def io_bytes(self) -> int:
        """Read once and written once, logs counted as growth."""
        return 2 * (self.base_bytes + self.log_bytes)

    @property
    def bytes(self) -> int:
        """The bytes of its base file and its logs on storage."""
        return self.base_bytes + self.log_bytes


def choose(candidates: Iterable[Candidate], settings: CompactionSettings) -> list[Candidate]:
    """Return the file groups that the strategy takes, in the order in which they will be merged."""
    eligible = list(candidates)
    match settings.strategy:
        case Strategy.UNBOUNDED:
            return eligible
        case Strategy.BOUNDED_IO:
            pass
        case Strategy.LOG_FILE_SIZE_BASED:
            eligible = [
                candidate
                for candidate in eligible
                if candidate.log_bytes >= settings.log_bytes_least
            ]
            eligible.sort(key=lambda candidate: -candidate.log_bytes)
        case Strategy.LOG_FILE_NUM_BASED:
            eligible = [
                candidate
                for candidate in eligible
                if len(candidate.slice.log_files) >= settings.log_files_least
            ]
            eligible.sort(key=lambda candidate: -len(candidate.slice.log_files))
    return _within(eligible, settings.io_bytes_max)


def _within(candidates: list[Candidate], io_bytes_max: int) -> list[Candidate]:
    """Return as many as the bound pays for, and one more that reaches it: the bound never makes a
    plan empty.
    """
    chosen_candidates: list[Candidate] = []
    spent = 0
    for candidate in candidates:
        if spent >= io_bytes_max:
            break
        chosen_candidates.append(candidate)
        spent += candidate.io_bytes
    return chosen_candidates


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits to be compacted, pending plans included."""

    delta_commits: int
    """Since the last compaction was planned."""
    log_files: int
    log_bytes: int
    file_groups: int
    """Those with logs."""
    pending_groups: int
    """Those that a pending plan holds."""

    @property
    def figures(self) -> dict[str, int]:
        """The fields by name, as `ServicePlan.figures`."""
        return {
            "delta_commits": self.delta_commits,
            "log_files": self.log_files,
            "log_bytes": self.log_bytes,
            "file_groups": self.file_groups,
            "pending_groups": self.pending_groups,
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A compaction that may be scheduled."""

    chosen: tuple[Candidate, ...]
    backlog: Backlog

    def plan_file(self, extra: dict[str, str]) -> CompactionPlanFile:
        """Build the plan to make durable; `extra` is stored in it."""
        return CompactionPlanFile(tuple(candidate.slice for candidate in self.chosen), extra)


def propose(table: Table, timeline: Timeline, settings: CompactionSettings) -> Proposal:
    """Return what would be scheduled now: slices that are in no pending plan, none if too few delta
    commits came since the last compaction.

    Raises MalformedTable when a log's completion time is unknown (bug A13).
    """
    view = FileSystemView.load(table, timeline=timeline)
    busy = pending_file_groups(table.storage, timeline)
    with_logs = [slice_ for slice_ in view.slices if slice_.log_files]
    candidates = [_candidate(table, slice_) for slice_ in with_logs]
    backlog = Backlog(
        delta_commits=count_delta_commits(table, timeline),
        log_files=sum(len(slice_.log_files) for slice_ in with_logs),
        log_bytes=sum(candidate.log_bytes for candidate in candidates),
        file_groups=len(with_logs),
        pending_groups=sum(candidate.slice.key in busy for candidate in candidates),
    )
    if backlog.delta_commits < settings.delta_commits_least:
        return Proposal((), backlog)
    free = [candidate for candidate in candidates if candidate.slice.key not in busy]
    return Proposal(tuple(choose(free, settings)), backlog)


def _candidate(table: Table, slice_: FileSlice) -> Candidate:
    base_bytes = sum_file_sizes(table.storage, [slice_.base_file] if slice_.base_file else [])
    log_bytes = sum_file_sizes(table.storage, slice_.log_files)
    metrics = {
        "TOTAL_LOG_FILES": float(len(slice_.log_files)),
        "TOTAL_LOG_FILES_SIZE": float(log_bytes),
        "TOTAL_IO_READ_MB": float((base_bytes + log_bytes) // _MEGABYTE),
        "TOTAL_IO_WRITE_MB": float((base_bytes or log_bytes) // _MEGABYTE),
        "TOTAL_IO_MB": float((2 * base_bytes + log_bytes) // _MEGABYTE),
    }
    return Candidate(to_planned_slice(slice_, metrics), base_bytes, log_bytes)


def count_delta_commits(table: Table, timeline: Timeline) -> int:
    """Count the delta commits that completed after the newest compaction was planned; archived ones
    do not count.
    """
    since = _last_compaction(table, timeline)
    return sum(
        instant.action is Action.DELTACOMMIT
        and (since is None or instant.completed_at > since)
        and not _is_creation(table, timeline, instant.requested_at)
        for instant in timeline.iterate_completed()
    )


def _last_compaction(table: Table, timeline: Timeline) -> InstantTime | None:
    for instant in reversed(list(timeline.iterate_completed())):
        if instant.action is Action.COMMIT and read_instant(table, instant).compacted:
            return instant.requested_at
    return None


def _is_creation(table: Table, timeline: Timeline, requested_at: InstantTime) -> bool:
    first = next(timeline.iterate_completed())
    if first.requested_at != requested_at:
        return False
    return read_instant(table, first).operation_type == CREATION_OPERATION
