"""The queue of this process for each lock: threads wait in line instead of all polling the store,
and a holder leaves the lock to the next one.

The queue is only a courtesy. The first in line polls often, the others rarely, so a ticket that
never leaves (a thread that stalls forever) costs time and nothing else. Only the record decides who
holds the lock.

A thread that completes an instant goes before those that begin one: then few instants are open at
the same time, and each has fewer competing commits to check. This starves no thread: each
completing thread had the lock to begin, and while it completes no others begin.

When the lock is left to the next thread, the record still names the former holder, which has
finished, and the next one replaces it. That spares one write of two, and the time until another
process finds the lock free. It is left only to a waiting thread, and only so many times in a row,
because other processes wait as well: if all threads of one process worked at the same time, they
would wait for each other and not for the table. If no other process comes in the pause after them,
the next series is longer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

TURNS: Final = 4
"""Holdings of one process in a row while more of its threads wait."""
TURNS_ALONE_MAX: Final = 32
"""The same for a process after whose pauses no other process has come, several times in a row."""


class QueueTicket(threading.Event):
    """A ticket, set when its thread may ask the store, or when the lock was left to it."""

    def __init__(self, *, goes_first: bool = False) -> None:
        super().__init__()
        self.goes_first = goes_first
        self.left_by = ""
        """The holding that ended for this one (`record.holding_of`); empty while there is none."""
        self.gives_way = False
        """This process had its turns: those of others ask first."""
        self._turn = 1
        self._waits = False


class LocalWaitQueue:
    """The tickets of one process for any number of locks. Thread-safe."""

    def __init__(self) -> None:
        self._places: dict[str, deque[QueueTicket]] = {}
        self._turns: dict[str, int] = {}
        self._given_back: dict[str, str] = {}
        """The holding after which this process last gave way."""
        self._changing = threading.Lock()

    @contextmanager
    def join(self, lock: str, *, goes_first: bool = False) -> Iterator[QueueTicket]:
        """Hold a ticket until the block ends, which includes holding the lock. `goes_first` puts it
        before tickets without it.
        """
        mine = QueueTicket(goes_first=goes_first)
        with self._changing:
            places = self._places.setdefault(lock, deque())
            places.append(mine)
            _call_next(places)
        try:
            yield mine
        finally:
            with self._changing:
                places.remove(mine)
                if places:
                    _call_next(places)
                else:
                    del self._places[lock]
                    self._turns.pop(lock, None)
                    self._given_back.pop(lock, None)

    @contextmanager
    def mark_waiting(self, mine: QueueTicket) -> Iterator[None]:
        """Mark the ticket as waiting within the block: the lock may be left to it."""
        with self._changing:
            mine._waits = True
        try:
            yield
        finally:
            with self._changing:
                mine._waits = False

    def leave_to_next(self, lock: str, mine: QueueTicket, holding: str) -> bool:
        """Leave the lock to the first waiting ticket; return False if it must be released."""
        with self._changing:
            heir = _first(place for place in self._places[lock] if place._waits)
            if heir is None:
                return False
            if mine._turn >= self._turns.get(lock, TURNS):
                heir.gives_way = True
                self._given_back[lock] = holding
                return False
            heir._turn = mine._turn + 1
            heir.left_by = holding
            heir._waits = False
            heir.set()
            return True

    def record_takeover(self, lock: str, after: str) -> None:
        """Record that a thread of this process took the lock from the store after the holding
        `after`. If that is our own, no other process used the pause.
        """
        with self._changing:
            given_back = self._given_back.pop(lock, None)
            if given_back is not None:
                more = min(2 * self._turns.get(lock, TURNS), TURNS_ALONE_MAX)
                self._turns[lock] = more if given_back == after else TURNS


def _call_next(places: Iterable[QueueTicket]) -> None:
    """Set the first ticket, unless one is set: one thread that asks the store is enough."""
    following = _first(places)
    if following is not None and not any(place.is_set() for place in places):
        following.set()


def _first(places: Iterable[QueueTicket]) -> QueueTicket | None:
    in_order = list(places)
    return next((place for place in in_order if place.goes_first), next(iter(in_order), None))


WAIT_QUEUE: Final = LocalWaitQueue()
