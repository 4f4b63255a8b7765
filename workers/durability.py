"""The guarantee for a file after a power failure, chosen by the call that writes it."""

from __future__ import annotations

from enum import Enum, auto


class Durability(Enum):
    """The guarantee of a write. After a loss of power, unlike after a killed process, unsynced data
    may be missing.
    """

    DURABLE = auto()
    """Content and name are synced before the call returns."""
    LIVENESS = auto()
    """It describes running processes: heartbeats, lock holders, waiting writers. After a loss of
    power none of them runs, so an older state is as good. A conditional replacement is whole
    anyway.
    """
    SCRATCH = auto()
    """It is rolled back or deleted after a power failure, and may reappear after it was deleted."""
