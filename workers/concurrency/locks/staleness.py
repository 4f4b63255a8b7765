"""The time for which this process has seen a state unchanged, by its own clock, which cannot be
set.

Times that other processes wrote are of their clocks. A dead holder whose clock was ahead would
block all writers for as long as it was ahead.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from workers.clock import InstantTime

_PLACES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """A difference between the clock of a lock's holder and this host's."""

    ahead_ms: int
    """How far the holder's clock was ahead; negative if it was behind."""
    writer: str
    """The holder, empty if it has no name."""
    instant: InstantTime
    """What the holder was about to decide, empty if nothing."""
    seen_s: float
    """When this process saw it, by its own clock."""


class StalenessTracker:
    """The last state at each of any number of places. Thread-safe: concurrent threads may note a
    state twice.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Hashable, float]] = {}
        self._looked_at_s: dict[str, float] = {}
        self.skews: dict[str, ClockSkew] = {}
        """By place the last difference of clocks that was too great."""

    def unchanged_for_s(self, place: str, state: Hashable, now_s: float) -> float:
        """Return the seconds since `state` was first seen there; 0 if there was another one
        before.
        """
        self._looked_at_s[place] = now_s
        last_seen = self._seen.get(place)
        if last_seen is not None and last_seen[0] == state:
            return now_s - last_seen[1]
        if len(self._seen) >= _PLACES_MAX:
            self._seen.clear()
            self._looked_at_s = {place: now_s}
            self.skews.clear()
        self._seen[place] = (state, now_s)
        return 0.0

    def get_last_seen(self, place: str) -> tuple[Hashable, float] | None:
        """Return the state that was seen there last, and when; None before the first look."""
        last_seen, looked_at_s = self._seen.get(place), self._looked_at_s.get(place)
        return None if last_seen is None or looked_at_s is None else (last_seen[0], looked_at_s)
