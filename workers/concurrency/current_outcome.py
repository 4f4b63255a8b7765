"""The outcome of an instant, whichever process decided it and however long ago."""

from __future__ import annotations

from workers.clock import InstantTime
from workers.concurrency.outcome import CommitOutcome, Committed, RolledBack, Unknown
from workers.table.table import Table
from workers.timeline.decision_lookup import find_decision
from workers.timeline.decisions import CommitDecision, RollbackDecision


def load_outcome(table: Table, instant: InstantTime) -> CommitOutcome:
    """Return the outcome by the decision object or the archived timeline; Unknown while there is no
    decision.
    """
    match find_decision(table.storage, instant):
        case CommitDecision(completed_at=completed_at):
            return Committed(instant, completed_at)
        case RollbackDecision(by=by, reason=reason):
            return RolledBack(instant, by, reason)
        case None:
            return Unknown(instant, "no decision was made")
