"""Who of this process asks for a lock next: threads stand in line instead of all asking the store.

Only a courtesy. Who is first asks often, the others now and then, so a place that nobody leaves (a
thread that sleeps for good) costs time and nothing else; the record alone says who holds the lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class Line:
    """The places of one process for any number of locks. Thread-safe."""

    def __init__(self) -> None:
        self._places: dict[str, deque[threading.Event]] = {}
        self._changing = threading.Lock()

    @contextmanager
    def joined(self, lock: str) -> Iterator[threading.Event]:
        """A place until the block ends, held lock included: set once everybody before has left."""
        mine = threading.Event()
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


LINE: Final = Line()
