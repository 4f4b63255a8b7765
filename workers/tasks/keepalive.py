"""Keepalive reports of a long task, which would be sent again without them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ALIVE_EVERY_S = 10.0
"""Without a report for a few intervals, the worker counts as dead and the job is sent again."""


@contextmanager
def keep_alive(say_so: Callable[[], None]) -> Iterator[None]:
    """Call `say_so` in a thread every `ALIVE_EVERY_S` seconds, until the block ends."""
    is_over = threading.Event()

    def repeat_report() -> None:
        while not is_over.wait(ALIVE_EVERY_S):
            say_so()

    thread = threading.Thread(target=repeat_report, name="alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
