"""Check, under the table lock, whether a writer was rolled back while its heartbeat had expired.
The same check applies to a process that executes the plan of a table service.

Our own engine uses the decision object, which no process overrides. Apache Hudi does not know it:
it plans a rollback of each writer with an expired heartbeat, and deletes files outside of the lock.
A writer whose heartbeat had expired therefore commits only if no rollback names its instant, and
every file that it wrote exists.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.clock import InstantTime
from workers.concurrency.outcome import RolledBack
from workers.errors import MalformedTable, NotFound
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import Action, Instant, State
from workers.timeline.metadata import read_rollback_plan, read_rollback_targets
from workers.timeline.timeline import Timeline

BY = "another engine"


def decide_foreign_rollback(
    table: Table, instant: InstantTime, timeline: Timeline, paths: Sequence[str]
) -> RolledBack | None:
    """Decide the rollback of the instant unless no rollback names it and its data files, `paths`,
    all exist; return None then. The instant must be undecided and on the timeline.
    """
    reason = _find_rollback_reason(table, instant, timeline, paths)
    if reason is None:
        return None
    decision = RollbackDecision(by=BY, nonce=table.ports.ids.token(), reason=reason)
    decisions.decide(table.storage, instant, decision)
    return RolledBack(instant, BY, reason)


def _find_rollback_reason(
    table: Table, instant: InstantTime, timeline: Timeline, paths: Sequence[str]
) -> str | None:
    for other in timeline.instants:
        if other.action is Action.ROLLBACK and other.requested_at > instant:
            if instant in (targets := _read_targets(table, other)):
                return f"its heart was silent, and rollback {other.requested_at} names it"
            if not targets and not other.is_completed:
                return f"its heart was silent, and nobody can read rollback {other.requested_at}"
    infos = table.storage.at_once(table.storage.info, paths)
    missing = [path for path, info in zip(paths, infos, strict=True) if info is None]
    if missing:
        return f"its heart was silent, and {len(missing)} of its files are gone: {missing[0]}"
    return None


def _read_targets(table: Table, rollback: Instant) -> list[InstantTime]:
    """Read the targets of a rollback; empty if none can be read."""
    storage, layout = table.storage, table.layout
    try:
        if rollback.is_completed:
            return read_rollback_targets(storage.read(layout.path(rollback)))
        requested = Instant(rollback.requested_at, Action.ROLLBACK, State.REQUESTED)
        plan = read_rollback_plan(storage.read(layout.path(requested)), storage.location)
        return [plan.target] if plan else []
    except (NotFound, MalformedTable):
        return []
