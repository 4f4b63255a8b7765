"""How a transaction ends. Callers match on all four; a conflict is an expected result, not an
exception.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict


@dataclass(frozen=True, slots=True)
class Committed:
    instant: InstantTime
    completed_at: InstantTime
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Conflicted:
    instant: InstantTime
    conflict: Conflict


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Somebody else decided to roll this instant back before it was published."""

    instant: InstantTime
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Storage does not tell whether the decision stands. Nothing was deleted; the next writer
    settles it.
    """

    instant: InstantTime
    reason: str = ""


CommitOutcome = Committed | Conflicted | RolledBack | Unknown
