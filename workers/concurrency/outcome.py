"""The end of a transaction. Callers match on all four outcomes; a conflict is an expected result,
not an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict
from workers.table.table import Table
from workers.timeline.decision_lookup import find_decision
from workers.timeline.decisions import CommitDecision, RollbackDecision


@dataclass(frozen=True, slots=True)
class Committed:
    """The instant is visible to readers, or will be when the next writer publishes the decision."""

    instant: InstantTime
    completed_at: InstantTime
    rows: int = 0
    attempts: int = 1
    """Writes that it took; the former ones lost conflicts, or were rolled back by others."""
    warnings: tuple[str, ...] = ()
    """Facts about the table that the user should know, although the commit succeeded."""
    republished_by: InstantTime | None = None
    """The instant that republishes this one for readers that order by request time."""
    republished_keys: int = 0
    """Keys that were republished with it."""
    divergent_keys: int = 0
    """Keys of its file groups of which other engines still read another row, until the table is
    compacted.
    """
    lists_exhausted: int = 0
    """Top-N lists that may now miss elements, because it removed more than their slack."""


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Another writer was first: nothing of this instant is published."""

    instant: InstantTime
    conflict: Conflict
    earlier: tuple[Conflict, ...] = ()
    """The conflicts of the attempts before the last one, in their order."""

    @property
    def attempts(self) -> int:
        """Writes that were tried, this one included."""
        return len(self.earlier) + 1


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Another process rolled this instant back before it was published."""

    instant: InstantTime
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Storage did not confirm the decision. Nothing was deleted; the next writer completes it or
    rolls it back.
    """

    instant: InstantTime
    reason: str = ""


CommitOutcome = Committed | Conflicted | RolledBack | Unknown


def describe_outcome(outcome: CommitOutcome) -> str:
    """Return one sentence about how the transaction ended, for logs and command lines."""
    match outcome:
        case Committed(instant=instant, rows=rows, attempts=attempts, warnings=warnings):
            retried = f" at attempt {attempts}" if attempts > 1 else ""
            warned = "".join(f"; {warning}" for warning in warnings)
            return f"committed {instant} with {rows} rows{retried}{warned}"
        case Conflicted(conflict=conflict):
            return conflict.message
        case RolledBack(instant=instant, by=by, reason=reason):
            return f"{instant} was rolled back by {by}: {reason}"
        case Unknown(instant=instant, reason=reason):
            return (
                f"it is unknown whether {instant} was committed: {reason}. Nothing was deleted; "
                "the next writer completes it or rolls it back"
            )
        case _:
            assert_never(outcome)


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
