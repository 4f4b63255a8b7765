"""The outcome of a write that a user confirmed: its instant, or the reason why it did nothing."""

from __future__ import annotations

from typing import assert_never

from workers.clock import InstantTime
from workers.concurrency.outcome import (
    CommitOutcome,
    Committed,
    Conflicted,
    RolledBack,
    Unknown,
)
from workers.errors import InstantRolledBack, PlanChanged, WriteOutcomeUnknown


def check_committed(outcome: CommitOutcome, *, service: str) -> InstantTime:
    """Return the instant of a commit that succeeded. Raises PlanChanged, InstantRolledBack,
    WriteOutcomeUnknown.
    """
    match outcome:
        case Committed():
            return outcome.instant
        case Conflicted():
            raise PlanChanged(
                "another writer changed the same file groups first; look at the new plan",
                service=service,
                instant=outcome.instant,
                conflict=outcome.conflict,
            )
        case RolledBack():
            raise InstantRolledBack(
                "the delete was rolled back before it was published",
                instant=outcome.instant,
                by=outcome.by,
            )
        case Unknown():
            raise WriteOutcomeUnknown(
                "storage does not say whether the delete is committed; the next writer settles it",
                instant=outcome.instant,
            )
    assert_never(outcome)
