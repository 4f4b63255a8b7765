"""Who of this process asks for a lock next: threads stand in line instead of all asking the store,
and who has held the lock leaves it to the next one.

Standing in line is only a courtesy. Who is first asks often, the others now and then, so a place
that nobody leaves (a thread that sleeps for good) costs time and nothing else; the record alone
says who holds the lock.

Leaving it: the record then still names the former holder, who is through, and the next one changes
it to his own. That spares one write of two, and the time until somebody finds the lock free. Only
one who waits is left it, and only so many in a row, for other processes wait as well.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

TURNS_MAX: Final = 8
"""Holdings of one process in a row while more of its threads wait."""


class Place(threading.Event):
    """Set once everybody before has left, or when the lock was left to this place."""

    def __init__(self) -> None:
        super().__init__()
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
        self._changing = threading.Lock()

    @contextmanager
    def joined(self, lock: str) -> Iterator[Place]:
        """A place until the block ends, held lock included."""
        mine = Place()
        with self._changing:
            places = self._places.setdefault(lock, deque())
            places.append(mine)
            places[0].set()
        try:
            yield mine
        finally:
            with self._changing:
                places.remove(mine)
                if places:
                    places[0].set()
                else:
                    del self._places[lock]

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
            heir = next((one for one in self._places[lock] if one._waits), None)
            if heir is None:
                return False
            if mine._turn >= TURNS_MAX:
                heir.gives_way = True
                return False
            heir._turn = mine._turn + 1
            heir.left_by = holding
            heir._waits = False
            heir.set()
            return True


LINE: Final = Line()
