"""Since when this process has seen something unchanged, by its own clock, which cannot be set.

What others wrote of times is of their clocks: one that was ahead and died would keep everybody
waiting for as long as it was ahead.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

_PLACES_MAX: Final = 1000


class Sightings:
    """What was seen at any number of places, one state each. Thread-safe: what threads see at once
    they may note twice.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Hashable, float]] = {}

    def seen_for_s(self, place: str, state: Hashable, now_s: float) -> float:
        """Seconds since `state` was first seen there; none when it was another one before."""
        last_seen = self._seen.get(place)
        if last_seen is not None and last_seen[0] == state:
            return now_s - last_seen[1]
        if len(self._seen) >= _PLACES_MAX:
            self._seen.clear()
        self._seen[place] = (state, now_s)
        return 0.0
