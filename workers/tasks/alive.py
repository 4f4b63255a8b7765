"""Signs of life of a task that is busy for long: without them it would be sent again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ALIVE_EVERY_S = 10.0
"""Silence for longer than a few of these is a dead worker, and the job is sent again."""


@contextmanager
def staying_alive(say_so: Callable[[], None]) -> Iterator[None]:
    """Call `say_so` in a thread, every `ALIVE_EVERY_S` from then on, until the block ends."""
    is_over = threading.Event()

    def say_again() -> None:
        while not is_over.wait(ALIVE_EVERY_S):
            say_so()

    thread = threading.Thread(target=say_again, name="alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
