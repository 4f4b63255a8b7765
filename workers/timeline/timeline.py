"""An immutable snapshot of the active timeline and its selectors.

Each instant appears once, in its highest state. A completed file of zero bytes counts as not
completed (bug A7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.storage.base import Storage
from workers.timeline.instant import Action, Instant, State
from workers.timeline.layout import TimelineLayout

_RANK = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}


@dataclass(frozen=True, slots=True)
class Timeline:
    instants: tuple[Instant, ...]
    """Ascending by requested time."""

    @classmethod
    def load(cls, storage: Storage, layout: TimelineLayout | None = None) -> Timeline:
        layout = layout or TimelineLayout()
        highest: dict[tuple[InstantTime, Action], Instant] = {}
        for file in storage.list_files(layout.directory):
            instant = layout.parse(file.name)
            if instant is None or (instant.is_completed and file.size == 0):
                continue
            _keep_highest(highest, instant)
        return cls(tuple(sorted(highest.values())))

    def completed(self) -> Iterator[Instant]:
        return (instant for instant in self.instants if instant.is_completed)

    def pending(self) -> Iterator[Instant]:
        return (instant for instant in self.instants if not instant.is_completed)

    def find(self, requested_at: InstantTime) -> Instant | None:
        """The instant itself, never a savepoint of it, which shares its time."""
        found = (one for one in self.instants if one.requested_at == requested_at)
        return next((one for one in found if one.action is not Action.SAVEPOINT), None)

    def completed_writes(self) -> list[Instant]:
        """Completed instants that wrote data, in the order in which they became visible."""
        writes = [instant for instant in self.completed() if instant.action.writes_data]
        return sorted(
            writes, key=lambda instant: (instant.completed_at or "", instant.requested_at)
        )

    @property
    def last_time(self) -> InstantTime | None:
        """The greatest requested or completed time; new times must be greater."""
        times = [one.requested_at for one in self.instants]
        times += [one.completed_at for one in self.instants if one.completed_at is not None]
        return max(times, default=None)

    @property
    def first_time(self) -> InstantTime | None:
        """Files of older instants count as committed (format page 2.4).

        A savepoint may outlive its commit here and begins nothing.
        """
        others = (one.requested_at for one in self.instants if one.action is not Action.SAVEPOINT)
        return next(others, None)


def _keep_highest(highest: dict[tuple[InstantTime, Action], Instant], instant: Instant) -> None:
    key = (instant.requested_at, instant.action.completes_as)
    known = highest.get(key)
    if known is None or _RANK[known.state] < _RANK[instant.state]:
        highest[key] = instant
