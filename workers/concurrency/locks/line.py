"""Who of this process asks for a lock next: threads stand in line instead of all asking the store,
and who has held the lock leaves it to the next one.

StoredLock in line is only a courtesy. Who is first asks often, the others now and then, so a place
that nobody leaves (a thread that sleeps for good) costs time and nothing else; the record alone
says who holds the lock.

Who has something to complete goes before those who want to begin: then few instants are open at
once, however many writers there are, and each has fewer rivals to look at. Nobody starves by that:
whoever completes had the lock to begin, and while they complete no others begin.

Leaving it: the record then still names the former holder, who is through, and the next one changes
it to his own. That spares one write of two, and the time until somebody finds the lock free. It
is left only to one who waits, and only so many in a row, for other processes wait as well: were all
threads of one process at work at once, they would wait for each other and not for the table. Where
no other process comes in the pause after them, the next are more in a row.
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
"""Of a process that found, again and again, that no other came when it had given the lock back."""


class Place(threading.Event):
    """Set once it is this one's turn to ask, or when the lock was left to it."""

    def __init__(self, *, goes_first: bool = False) -> None:
        super().__init__()
        self.goes_first = goes_first
        self.left_by = ""
        """The holding that ended for this one (`record.holding_of`); empty while there is none."""
        self.gives_way = False
        """This process had its turns: those of others ask first."""
        self._turn = 1
        self._waits = False


class Line:
    """The places of one process for any number of locks. Thread-safe."""

    def __init__(self) -> None:
        self._places: dict[str, deque[Place]] = {}
        self._turns: dict[str, int] = {}
        self._given_back: dict[str, str] = {}
        """The holding after which this process last gave way."""
        self._changing = threading.Lock()

    @contextmanager
    def joined(self, lock: str, *, goes_first: bool = False) -> Iterator[Place]:
        """A place until the block ends, held lock included; before those that do not go first."""
        mine = Place(goes_first=goes_first)
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
    def waiting(self, mine: Place) -> Iterator[None]:
        """While it does, the lock may be left to this place."""
        with self._changing:
            mine._waits = True
        try:
            yield
        finally:
            with self._changing:
                mine._waits = False

    def leave_to_next(self, lock: str, mine: Place, holding: str) -> bool:
        """Leave it to the first who waits; False when it has to be given back."""
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

    def took(self, lock: str, after: str) -> None:
        """One of this process had it from the store, `after` whose holding: giving way was in vain
        when that is our own.
        """
        with self._changing:
            given_back = self._given_back.pop(lock, None)
            if given_back is not None:
                more = min(2 * self._turns.get(lock, TURNS), TURNS_ALONE_MAX)
                self._turns[lock] = more if given_back == after else TURNS


def _call_next(places: Iterable[Place]) -> None:
    """Somebody asks the store, and one is enough."""
    following = _first(places)
    if following is not None and not any(place.is_set() for place in places):
        following.set()


def _first(places: Iterable[Place]) -> Place | None:
    in_order = list(places)
    return next((place for place in in_order if place.goes_first), next(iter(in_order), None))


LINE: Final = Line()
