"""Whether somebody decided about a writer while its heart did not beat: asked under the table lock.
The same is asked about a process that carries out the plan of a table service.

Our own engine decides by the decision object, which nobody overrides. Apache Hudi knows of none: it
plans a rollback of whoever is silent, and deletes files outside of the lock. A writer that was
silent therefore commits only when it can prove that nobody did: no rollback names its instant, and
every file that it wrote is there.
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


def rolled_back_in_silence(
    table: Table, instant: InstantTime, timeline: Timeline, paths: Sequence[str]
) -> RolledBack | None:
    """None when it is proved that nobody did: no rollback names it, and its data files, `paths`,
    are there. The instant is on the timeline still, undecided; else it is decided here, so that
    nothing more is written for it.
    """
    reason = _why_not(table, instant, timeline, paths)
    if reason is None:
        return None
    decision = RollbackDecision(by=BY, nonce=table.ports.ids.token(), reason=reason)
    decisions.decide(table.storage, instant, decision)
    return RolledBack(instant, BY, reason)


def _why_not(
    table: Table, instant: InstantTime, timeline: Timeline, paths: Sequence[str]
) -> str | None:
    for other in timeline.instants:
        if other.action is Action.ROLLBACK and other.requested_at > instant:
            if instant in (targets := _targets(table, other)):
                return f"its heart was silent, and rollback {other.requested_at} names it"
            if not targets and not other.is_completed:
                return f"its heart was silent, and nobody can read rollback {other.requested_at}"
    infos = table.storage.at_once(table.storage.info, paths)
    missing = [path for path, info in zip(paths, infos, strict=True) if info is None]
    if missing:
        return f"its heart was silent, and {len(missing)} of its files are gone: {missing[0]}"
    return None


def _targets(table: Table, rollback: Instant) -> list[InstantTime]:
    """None that can be read leaves an empty list."""
    storage, layout = table.storage, table.layout
    try:
        if rollback.is_completed:
            return read_rollback_targets(storage.read(layout.path(rollback)))
        requested = Instant(rollback.requested_at, Action.ROLLBACK, State.REQUESTED)
        plan = read_rollback_plan(storage.read(layout.path(requested)), storage.location)
        return [plan.target] if plan else []
    except (NotFound, MalformedTable):
        return []
