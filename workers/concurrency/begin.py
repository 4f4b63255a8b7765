"""The first files of an instant, which stay only if their writer held the table lock when it wrote
them.

The process that began an instant is recorded when another writer takes its lock over.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.heartbeat import HeartbeatKeeper, read_heartbeat
from workers.concurrency.late_writers import record_beginner
from workers.concurrency.locks.lease import Lease
from workers.errors import LeaseLost
from workers.storage.base import Storage
from workers.table.schema_history import SchemaVersion
from workers.table.table import Table
from workers.timeline import transitions
from workers.timeline.instant import Action, Instant
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class StartedTransaction:
    """A transaction's view of the table when it began."""

    instant: Instant
    timeline: Timeline
    """Without our own instant."""
    schema: SchemaVersion | None
    heartbeat: HeartbeatKeeper
    inflight_ms: int
    """When its first files were there, epoch ms by the writer's clock."""


def begin_under_lock(
    table: Table, lease: Lease, heartbeat: HeartbeatKeeper, action: Action
) -> Instant:
    """Write the first files of an instant under the lease, and return the inflight instant.

    A process that stalled past its lease has not begun: other writers may have archived past its
    instant, and with it on the timeline readers would miss later commits. The heartbeat is written
    before, so archiving cannot pass the instant between this check and the files.

    Raises LeaseLost with no file left.
    """
    try:
        lease.confirm()
    except LeaseLost:
        if table.timeline().find(heartbeat.instant) is None:  # Else it is not ours.
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


def record_stalled_holder(storage: Storage, target: InstantTime) -> None:
    """Record the process whose lock was taken over. It may have decided already, and be stalled
    before its last file.
    """
    heartbeat = read_heartbeat(storage, target)
    record_beginner(storage, target, heartbeat.process if heartbeat else None)
