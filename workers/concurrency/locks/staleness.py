"""The time for which this process has seen a state unchanged, by its own clock, which cannot be
set, and the difference between the clock of a lock's holder and this host's.

Times that other processes wrote are of their clocks. A dead holder whose clock was ahead would
block all writers for as long as it was ahead.

A holder writes the end of its lease by its own clock, at each renewal. The end minus the length of
the lease is the time of that write, which is between this host's last two reads of the record.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from workers.clock import InstantTime
from workers.concurrency.locks.record import LockState, holder_token

_PLACES_MAX: Final = 1000
SKEW_MS: Final = 2_000
"""Clocks that differ by less are not reported: a slow store delays a renewal by as much."""
RECENT_S: Final = 600
"""For this time, commits of this process report a difference that it found at the lock."""
_log = logging.getLogger(__name__)


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


def note_skew(
    sightings: StalenessTracker,
    place: str,
    held: LockState,
    lease_ms: int,
    now_ms: int,
    now_s: float,
) -> None:
    """Log that the clocks differ, once for each difference, and store it in `sightings`.

    Call it before the state is noted in `sightings`.
    """
    ahead_ms = held.valid_until_ms - lease_ms - now_ms
    if ahead_ms <= SKEW_MS:
        ahead_ms = min(0, _most_ahead_ms(sightings, place, held, ahead_ms, now_s))
    if abs(ahead_ms) <= SKEW_MS:
        return
    former = sightings.skews.get(place)
    if former is None or abs(ahead_ms - former.ahead_ms) > SKEW_MS:
        _log.warning(
            "the clocks of this host and of the lock's holder differ, set them by NTP: "
            "holder_is_ahead_ms=%s holder=%s lock=%s",
            ahead_ms,
            held.owner,
            place,
        )
    instant = (held.completing or "").partition("+")[0]
    sightings.skews[place] = ClockSkew(ahead_ms, held.writer or "", instant, now_s)


def recent_skew(sightings: StalenessTracker, place: str, now_s: float) -> ClockSkew | None:
    """Return the difference that was seen last, None if that is longer ago than `RECENT_S`."""
    skew = sightings.skews.get(place)
    return skew if skew is not None and now_s - skew.seen_s <= RECENT_S else None


def _most_ahead_ms(
    sightings: StalenessTracker, place: str, held: LockState, ahead_ms: int, now_s: float
) -> int:
    """0 where it is not known when the record was written."""
    last = sightings.get_last_seen(place)
    if last is None:
        return 0
    state, looked_at_s = last
    if not isinstance(state, LockState):
        return 0
    is_renewed = state.valid_until_ms != held.valid_until_ms
    if not is_renewed and holder_token(state.owner) == holder_token(held.owner):
        return 0
    return ahead_ms + int((now_s - looked_at_s) * 1000)
