"""What a rollback would do, computed without doing it: files, bytes, what stands in the way.

Files are found by the instant in their names, in the partitions that markers name, else in all
partitions; a marker whose file was never written adds nothing. So the marker way and the listing
way agree in every state (invariant RB4).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.heartbeat import read_heartbeat, read_heartbeats
from workers.errors import MalformedTable
from workers.files.names import instant_of
from workers.files.partition import list_partitions
from workers.markers.store import read_markers
from workers.storage.base import FileInfo
from workers.table.schema_history import read_instant
from workers.table.table import CREATION_OPERATION, Table
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision
from workers.timeline.instant import Action, Instant
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class PlannedFile:
    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class RollbackPlan:
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
        return sum(file.bytes for file in self.files)

    @property
    def plan_hash(self) -> str:
        """Changes with anything that a person was shown."""
        shown = [
            self.target,
            self.action,
            self.state,
            [[file.path, file.bytes] for file in self.files],
            list(self.blockers),
        ]
        return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def plan_rollback(table: Table, requested_at: InstantTime) -> RollbackPlan:
    """Changes nothing. Raises NotFound never: an instant that is gone is a blocker."""
    timeline = table.timeline()
    target = timeline.find(requested_at)
    if target is None:
        gone = (f"instant {requested_at} is not on the active timeline",)
        return RollbackPlan(requested_at, "", "", (), (), gone, ())
    files = files_of(table, requested_at)
    heartbeat = read_heartbeat(table.storage, requested_at)
    now_ms = table.ports.clock.now_ms()
    is_live = not target.is_completed and heartbeat is not None and not heartbeat.is_expired(now_ms)
    return RollbackPlan(
        target=requested_at,
        action=target.action.value,
        state=target.state.value,
        files=tuple(PlannedFile(file.path, file.size) for file in files),
        partitions=tuple(sorted({file.path.rpartition("/")[0] for file in files})),
        blockers=tuple(_blockers(table, timeline, target)),
        warnings=tuple(_warnings(table, target, is_live=is_live)),
        is_live=is_live,
    )


def files_of(table: Table, requested_at: InstantTime) -> list[FileInfo]:
    """Every data file that carries the instant in its name."""
    found: dict[str, FileInfo] = {}
    for partition in _touched_partitions(table, requested_at):
        for file in table.storage.list_files(partition):
            if instant_of(file.name) == requested_at:
                found[file.path] = file
    return [found[path] for path in sorted(found)]


def _touched_partitions(table: Table, requested_at: InstantTime) -> list[str]:
    """All partitions, those of markers included, which may have no metadata file yet.

    Markers only name what this writer announced; a late task of a killed job may have written
    elsewhere, and a damaged marker directory names too little. Listing is the safe superset while
    tables are small.
    """
    marked = {marker.partition for marker in read_markers(table.storage, requested_at)}
    return sorted(marked | set(list_partitions(table.storage)))


def _blockers(table: Table, timeline: Timeline, target: Instant) -> list[str]:
    found = []
    if table.write_refusal:
        found.append(table.write_refusal)
    is_pending_rewrite = target.action.is_rewrite and not target.is_completed
    if not (target.action.writes_data or is_pending_rewrite):
        found.append(f"only writes are rolled back, this is a {target.action}")
    if not target.is_completed:
        if isinstance(decisions.read(table.storage, target.requested_at), CommitDecision):
            found.append("its commit is decided already; the next writer publishes it")
        return found
    later = [
        one
        for one in timeline.completed_writes()
        if (one.completed_at or "") > (target.completed_at or "")
    ]
    if later:
        order = ", ".join(one.requested_at for one in reversed(later))
        found.append(f"only the newest completed write is rolled back; first: {order}")
    if any(one.action is Action.SAVEPOINT for one in timeline.completed()):
        found.append("the table has savepoints, which this version does not weigh")
    if target.action is Action.REPLACECOMMIT:
        found.append("a replacecommit is not rolled back by this version")
    if _is_creation(table, target):
        found.append("this instant created the table; delete the table instead")
    return found


def _is_creation(table: Table, target: Instant) -> bool:
    try:
        return read_instant(table, target).operation_type == CREATION_OPERATION
    except MalformedTable:  # Damaged metadata is a reason to roll back, not to refuse it.
        return False


def _warnings(table: Table, target: Instant, *, is_live: bool) -> list[str]:
    found = []
    if is_live:
        found.append("its writer is alive: it will be stopped at its next marker or at commit")
    now_ms = table.ports.clock.now_ms()
    others = [
        beat
        for beat in read_heartbeats(table.storage)
        if beat.instant != target.requested_at and not beat.is_expired(now_ms)
    ]
    if others and target.is_completed:
        names = ", ".join(sorted(beat.writer or beat.instant for beat in others))
        found.append(f"live writers that built on it will lose a conflict: {names}")
    return found
