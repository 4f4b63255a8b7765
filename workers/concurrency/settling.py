"""The table's lock, and what its holder settles first: a former holder who slept past his lease is
fenced, and what was decided is published.
"""

from __future__ import annotations

from functools import partial

from workers.concurrency.beginning import note_sleeper
from workers.concurrency.locks.lease import TableLock
from workers.concurrency.locks.opening import BoundLock
from workers.options.write_options import WriteOptions
from workers.table.table import Table
from workers.timeline import decisions, transitions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.timeline import Timeline

TAKEOVER = "takeover"


def table_lock(table: Table, options: WriteOptions) -> TableLock:
    """The lock that the table is bound to; who takes it over fences the former holder first."""
    return BoundLock(table.storage, table.ports, options, on_takeover=partial(fence_sleeper, table))


def fence_sleeper(table: Table, completing: str) -> None:
    """The former holder let its lease run out while deciding: it must not decide any more.

    `completing` is the instant that it was completing, or `<target>+<rollback>` for an undo.
    """
    target, _, by = completing.partition("+")
    if by:
        decisions.fence_undo(table.storage, target, by=by)
        return
    note_sleeper(table.storage, target)
    decision = RollbackDecision(
        by=TAKEOVER,
        nonce=table.ports.ids.token(),
        reason="the writer held the table lock past its lease",
    )
    decisions.decide(table.storage, target, decision)


def settled_timeline(table: Table) -> Timeline:
    """The timeline once every decided commit is published. Under the table lock only."""
    timeline = table.timeline()
    if transitions.finish_decided(table.storage, timeline):
        return table.timeline()
    return timeline
