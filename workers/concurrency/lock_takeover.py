"""The table's lock, and the first steps of its holder: fence a previous holder that stalled past
its lease, and publish decided commits.
"""

from __future__ import annotations

from functools import partial

from workers.concurrency.begin import record_stalled_holder
from workers.concurrency.locks.bound_lock import BoundLock
from workers.concurrency.locks.lease import TableLock
from workers.options.write_options import WriteOptions
from workers.table.table import Table
from workers.timeline import decisions, transitions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.timeline import Timeline

TAKEOVER = "takeover"


def table_lock(table: Table, options: WriteOptions) -> TableLock:
    """Return the lock that the table is bound to. A takeover fences the previous holder first."""
    return BoundLock(
        table.storage, table.ports, options, on_takeover=partial(fence_previous_holder, table)
    )


def fence_previous_holder(table: Table, completing: str) -> None:
    """Fence the previous holder, whose lease expired while it was deciding.

    `completing` is the instant that it was completing, or `<target>+<rollback>` for an undo.
    """
    target, _, by = completing.partition("+")
    if by:
        decisions.fence_undo(table.storage, target, by=by)
        return
    record_stalled_holder(table.storage, target)
    decision = RollbackDecision(
        by=TAKEOVER,
        nonce=table.ports.ids.token(),
        reason="the writer held the table lock past its lease",
    )
    decisions.decide(table.storage, target, decision)


def load_published_timeline(table: Table) -> Timeline:
    """Publish every decided commit and return the timeline. Requires the table lock."""
    timeline = table.timeline()
    if transitions.finish_decided(table.storage, timeline):
        return table.timeline()
    return timeline
