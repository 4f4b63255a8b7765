"""What a file is owed when the power fails, said at the call that writes it."""

from __future__ import annotations

from enum import Enum, auto


class Durability(Enum):
    """A loss of power is more than a killed process: what was not synced may be gone by then."""

    DURABLE = auto()
    """Content and name are synced before the call returns."""
    LIVENESS = auto()
    """It speaks of the living: who beats, who holds a lock, who waits. After a loss of power nobody
    does, so an older state is as good. What is replaced on a condition is whole all the same.
    """
    SCRATCH = auto()
    """It is rolled back or swept when the power fails, and nobody minds when it comes back after it
    was deleted.
    """
