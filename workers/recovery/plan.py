"""The plan of a rollback, computed without doing it: files, bytes, blockers.

Files are found by the instant in their names, in the partitions that its markers name. All
partitions are listed if there are no markers, if some are lost, and if
`hoodie.rollback.using.markers` is false. A marker is written before its file, so both ways name the
same files in every state after one of our crashes (invariant RB4).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.heartbeat import read_heartbeat, read_heartbeats
from workers.concurrency.republish import is_republication
from workers.errors import MalformedTable
from workers.files.names import parse_log_file, parse_name_instant
from workers.files.partition import files_by_partition, list_partitions
from workers.markers.marker import parse_marker
from workers.markers.store import read_names
from workers.options.sink_keys import ID_KEY as SINK_ID_KEY
from workers.storage.base import FileInfo
from workers.table.cleaned_files import find_cleaned_files
from workers.table.creation import CREATION_OPERATION
from workers.table.savepoints import read_savepoints
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision
from workers.timeline.instant import Action, CompletedInstant, Instant
from workers.timeline.metadata import (
    MOVED_ROWS_KEY,
    STREAM_KEY,
    WRITER_KEY,
    CommitMetadata,
)
from workers.timeline.pending_plans import pending_plan_files
from workers.timeline.timeline import Timeline

_NAMED_MAX = 3
_UPSERT = "UPSERT"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that would be deleted: path relative to the table, and its size."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The files that a rollback of `target` would delete, sorted by path, and its blockers."""

    target: InstantTime
    action: str
    state: str
    files: tuple[PlannedFile, ...]
    partitions: tuple[str, ...]
    blockers: tuple[str, ...]
    """Reasons why this rollback is refused; empty when it may run."""
    warnings: tuple[str, ...]
    is_live: bool = False
    """A writer with a fresh heartbeat is still working on it."""

    @property
    def bytes_total(self) -> int:
        """The bytes that a rollback frees."""
        return sum(file.bytes for file in self.files)

    @property
    def plan_hash(self) -> str:
        """A hash of everything that was shown to the user."""
        content = [
            self.target,
            self.action,
            self.state,
            [[file.path, file.bytes] for file in self.files],
            list(self.blockers),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def plan_rollback(
    table: Table,
    requested_at: InstantTime,
    *,
    in_restore: bool = False,
    by_markers: bool = True,
) -> RollbackPlan:
    """Return the plan; changes nothing. Never raises NotFound: an instant that is gone is a
    blocker.

    `in_restore`: everything newer is rolled back too, and the possible loss was checked before.
    """
    timeline = table.timeline()
    target = timeline.find(requested_at)
    if target is None:
        blockers = (f"instant {requested_at} is not on the active timeline",)
        return RollbackPlan(requested_at, "", "", (), (), blockers, ())
    files = find_files(table, requested_at, by_markers=by_markers and not target.is_completed)
    heartbeat = read_heartbeat(table.storage, requested_at)
    now_ms = table.ports.clock.now_ms()
    is_live = not target.is_completed and heartbeat is not None and not heartbeat.is_expired(now_ms)
    return RollbackPlan(
        target=requested_at,
        action=target.action.value,
        state=target.state.value,
        files=tuple(PlannedFile(file.path, file.size) for file in files),
        partitions=tuple(sorted({file.path.rpartition("/")[0] for file in files})),
        blockers=tuple(_find_blockers(table, timeline, target, files, in_restore=in_restore)),
        warnings=tuple(_find_warnings(table, target, is_live=is_live)),
        is_live=is_live,
    )


def find_files(
    table: Table, requested_at: InstantTime, *, by_markers: bool = True
) -> list[FileInfo]:
    """Return every data file that has the instant in its name.

    `by_markers`: in the partitions that its markers name, if these are complete; without them, as
    for a completed instant, or with False, in all.
    """
    touched = _list_touched_partitions(table, requested_at, by_markers=by_markers)
    files = [
        file
        for listed in files_by_partition(table.storage, touched).values()
        for file in listed
        if parse_name_instant(file.name) == requested_at
    ]
    return sorted(files, key=lambda file: file.path)


def _list_touched_partitions(
    table: Table, requested_at: InstantTime, *, by_markers: bool
) -> list[str]:
    """Return the partitions to list. Those that markers name may have no metadata file yet; listing
    finds the rest, because the last effects of a killed task may appear in any order.
    """
    names = read_names(table.storage, requested_at)
    marked = {parse_marker(name).partition for name in names.all()}
    if by_markers and marked and not names.are_some_lost:
        return sorted(marked)
    return sorted(marked | set(list_partitions(table.storage)))


def _find_blockers(
    table: Table,
    timeline: Timeline,
    target: Instant,
    files: list[FileInfo],
    *,
    in_restore: bool,
) -> list[str]:
    blockers = []
    if table.write_refusal:
        blockers.append(table.write_refusal)
    is_pending_rewrite = target.action.is_rewrite and not target.is_completed
    if not (target.action.writes_data or is_pending_rewrite):
        blockers.append(f"only writes are rolled back, this is a {target.action}")
    if not isinstance(target, CompletedInstant):
        if isinstance(decisions.read(table.storage, target.requested_at), CommitDecision):
            blockers.append("its commit is decided already; the next writer publishes it")
        return blockers
    if _is_creation(table, target):
        blockers.append("this instant created the table; delete the table instead")
    if reason := find_old_log_blocker(table, target):
        blockers.append(reason)
    paths = {file.path for file in files}
    blockers += _find_savepoint_blockers(table, timeline, paths)
    if not in_restore and target.action.writes_data:
        blockers += _find_order_blockers(table, timeline, target)
        blockers += find_plan_blockers(table, timeline, paths)
    return blockers


def find_old_log_blocker(table: Table, target: Instant) -> str | None:
    """Return why a write of version 6 in a table that was upgraded since cannot be rolled back: its
    rows are not found by its instant. None for other writes.
    """
    if not (table.config.has_old_logs and target.is_completed and target.action.writes_data):
        return None
    try:
        stats = read_instant(table, target).stats
    except MalformedTable:  # Damaged metadata is a reason to roll back, not to refuse it.
        return None
    logs = (name for stat in stats if (name := parse_log_file(stat.file_name)))
    if all(log.instant == target.requested_at for log in logs):
        return None
    return (
        f"{target.requested_at} was written before the table was upgraded: its rows stand in log "
        "files with those of other writes"
    )


def _find_savepoint_blockers(table: Table, timeline: Timeline, paths: set[str]) -> list[str]:
    blockers = []
    for instant, savepoint in read_savepoints(table, timeline).items():
        if held := sorted(savepoint.paths & paths):
            blockers.append(
                f"the savepoint of {instant} holds {_format_paths(held)}; delete it first"
            )
    return blockers


def _find_order_blockers(table: Table, timeline: Timeline, target: CompletedInstant) -> list[str]:
    """Return the later writes that must be rolled back first, or the replaced files that are gone
    (bug B11).
    """
    writes = timeline.list_completed_writes()
    later = [write for write in writes if write.completed_at > target.completed_at]
    if dependent := _find_dependent_writes(table, timeline, target, later):
        order = ", ".join(_describe_instant(table, write, target) for write in reversed(dependent))
        if len(dependent) == len(later):
            return [f"only the newest completed write is rolled back; first: {order}"]
        return [f"later writes depend on it; first: {order}"]
    if is_compaction(table, target):
        return ["a completed compaction changes no row; only a restore takes it back"]
    return find_cleaned_file_blockers(table, timeline, target)


def _find_dependent_writes(
    table: Table,
    timeline: Timeline,
    target: CompletedInstant,
    later: list[CompletedInstant],
) -> list[CompletedInstant]:
    """Return those of the `later` writes that `target` cannot be rolled back without.

    An upsert of a stream or a sink is independent if it touches none of its file groups and belongs
    to another stream: it took its rows from elsewhere, and its own position does not move. The
    target must have put rows in place only. With what it deletes or moves, undoing it could bring
    a key back that a later write has put into another file group. Under a global index a later
    write may have dropped a row for one of the target's in another partition. Every other write
    may have read rows of the target, so it goes first.
    """
    try:
        undone = read_instant(table, target)
    except MalformedTable:  # Damaged metadata is a reason to roll back, not to refuse it.
        return later
    before = [
        write
        for write in timeline.list_completed_writes()
        if write.completed_at < target.completed_at
    ]
    if not later or not before or not _puts_rows_only(table, target, undone, before[-1]):
        return later
    return [write for write in later if not _is_independent(table, write, undone)]


def _puts_rows_only(
    table: Table, target: CompletedInstant, undone: CommitMetadata, before: CompletedInstant
) -> bool:
    """Check that a write changed neither the schema nor the location of any key."""
    if target.action is Action.REPLACECOMMIT or undone.compacted or undone.restates:
        return False
    if table.config.is_global:
        return False
    if any(stat.num_deletes for stat in undone.stats) or MOVED_ROWS_KEY in undone.extra_metadata:
        return False
    try:
        return undone.schema_json == read_instant(table, before).schema_json
    except MalformedTable:
        return False


def _is_independent(table: Table, later: CompletedInstant, undone: CommitMetadata) -> bool:
    try:
        metadata = read_instant(table, later)
    except MalformedTable:
        return False
    source = _get_source(metadata)
    return (
        later.action is not Action.REPLACECOMMIT
        and metadata.operation_type == _UPSERT
        and not metadata.compacted
        and metadata.restates is None
        and source is not None
        and source != _get_source(undone)
        and not metadata.file_groups & undone.file_groups
    )


def _get_source(metadata: CommitMetadata) -> tuple[str | None, str | None] | None:
    """Return the stream and the sink that a write belongs to; None without both."""
    extra = metadata.extra_metadata
    stream, sink = extra.get(STREAM_KEY), extra.get(SINK_ID_KEY)
    return (stream, sink) if stream or sink else None


def find_sequence_blockers(table: Table, timeline: Timeline, plan: RollbackPlan) -> list[str]:
    """Return why one of several, of which the newest is first, cannot be rolled back now, in
    addition to its plan's blockers with `in_restore`. A compaction can, with the writes that it
    merged.
    """
    target = timeline.find(plan.target)
    if not isinstance(target, CompletedInstant) or not target.action.writes_data:
        return []
    blockers = _find_later_blockers(table, timeline, target) or find_cleaned_file_blockers(
        table, timeline, target
    )
    return [*blockers, *find_plan_blockers(table, timeline, {file.path for file in plan.files})]


def _find_later_blockers(table: Table, timeline: Timeline, target: CompletedInstant) -> list[str]:
    writes = timeline.list_completed_writes()
    later = [write for write in writes if write.completed_at > target.completed_at]
    if not later:
        return []
    order = ", ".join(_describe_instant(table, write, target) for write in reversed(later))
    return [f"only the newest completed write is rolled back; first: {order}"]


def find_cleaned_file_blockers(
    table: Table, timeline: Timeline, target: CompletedInstant
) -> list[str]:
    """Return the cleaned files of the state before the target."""
    before = [
        write.completed_at
        for write in timeline.list_completed_writes()
        if write != target and write.completed_at <= target.completed_at
    ]
    if before and (lost := find_cleaned_files(table, timeline, before[-1])):
        return [f"files of the state before it were cleaned away: {_format_paths(lost)}"]
    return []


def _describe_instant(table: Table, instant: Instant, target: Instant) -> str:
    if is_republication(table, instant, target.requested_at):
        return f"{instant.requested_at} (states it again for other engines)"
    is_plain = instant.action is not Action.REPLACECOMMIT
    return instant.requested_at if is_plain else f"{instant.requested_at} (a replacement)"


def find_plan_blockers(
    table: Table,
    timeline: Timeline,
    paths: set[str],
    *,
    besides: Collection[InstantTime] = (),
) -> list[str]:
    """Return the pending plans that read these paths: one that runs concurrently would put the rows
    into a base file permanently (bug B8). `besides`: those that are rolled back first.
    """
    return [
        f"the pending plan {instant} reads {_format_paths(sorted(files & paths))}; run it or"
        " take it back"
        for instant, files in pending_plan_files(table.storage, timeline).items()
        if files & paths and instant not in besides
    ]


def _format_paths(paths: list[str]) -> str:
    more = f" and {len(paths) - _NAMED_MAX} more" if len(paths) > _NAMED_MAX else ""
    return f"{len(paths)} files: " + ", ".join(paths[:_NAMED_MAX]) + more


def is_compaction(table: Table, target: Instant) -> bool:
    """Check if a completed write merged logs into base files."""
    try:
        return read_instant(table, target).compacted
    except MalformedTable:  # Damaged metadata is a reason to roll back, not to refuse it.
        return False


def _is_creation(table: Table, target: Instant) -> bool:
    """Check if the instant created the table. An alteration also writes a schema and no file, but
    names its writer.
    """
    try:
        metadata = read_instant(table, target)
        is_ours = WRITER_KEY not in metadata.extra_metadata
        return metadata.operation_type == CREATION_OPERATION and is_ours
    except MalformedTable:  # Damaged metadata is a reason to roll back, not to refuse it.
        return False


def _find_warnings(table: Table, target: Instant, *, is_live: bool) -> list[str]:
    warnings = []
    if is_live:
        warnings.append("its writer is alive: it will be stopped at its next marker or at commit")
    now_ms = table.ports.clock.now_ms()
    others = [
        beat
        for beat in read_heartbeats(table.storage)
        if beat.instant != target.requested_at and not beat.is_expired(now_ms)
    ]
    if others and target.is_completed:
        names = ", ".join(sorted(beat.writer or beat.instant for beat in others))
        warnings.append(f"live writers that built on it will lose a conflict: {names}")
    return warnings
