"""The first files of an instant stay only if their writer held the table lock when they came; and
whoever slept past that lock is noted.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.heartbeat import HeartbeatKeeper, read_heartbeat
from workers.concurrency.late_writers import note_beginner
from workers.concurrency.locks.lease import Lease
from workers.errors import LeaseLost
from workers.storage.base import Storage
from workers.table.schema_history import SchemaVersion
from workers.table.table import Table
from workers.timeline import transitions
from workers.timeline.instant import Action, Instant
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Started:
    """A transaction's view of the table when it began."""

    instant: Instant
    timeline: Timeline
    """Without our own instant."""
    schema: SchemaVersion | None
    heartbeat: HeartbeatKeeper
    inflight_ms: int
    """When its first files were there, epoch ms by the writer's clock."""


def begin_under(table: Table, lease: Lease, heartbeat: HeartbeatKeeper, action: Action) -> Instant:
    """Whoever slept past his lease has not begun: others may have archived past his instant, and
    with it on the timeline other readers would miss what stands behind it. The heartbeat, which
    stands before it, keeps archiving from passing a sleeper between this look and the files.

    Raises LeaseLost with nothing left behind.
    """
    try:
        lease.confirm()
    except LeaseLost:
        if table.timeline().find(heartbeat.instant) is None:  # Else it is somebody else's heart.
            heartbeat.remove()
        raise
    inflight = transitions.begin(table.storage, heartbeat.instant, action)
    try:
        lease.confirm()
    except LeaseLost:
        transitions.discard(table.storage, heartbeat.instant, action)
        heartbeat.remove()
        raise
    return inflight


def note_sleeper(storage: Storage, target: InstantTime) -> None:
    """Note the process whose lock was taken over: it may have decided already, and be asleep before
    its last file.
    """
    heartbeat = read_heartbeat(storage, target)
    note_beginner(storage, target, heartbeat.process if heartbeat else None)
