"""Calls on concurrent threads, which have ended when this returns: reads, writes and table services
use it to process several file groups at once.

Arrow releases the interpreter's lock while it decodes, sorts and encodes, so threads are enough. A
call begins only when a thread is free for it: no call waits in a queue that would have to be
cancelled after a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

_CORES_MAX: Final = 8
_BYTES_WORTH_THREADS: Final = 4_000_000
_BYTES_AT_ONCE_MAX: Final = 160_000_000
"""The limit for files as stored, or for rows that wait to be written: in memory they are some three
times larger.
"""

_Given = TypeVar("_Given")
_Answer = TypeVar("_Answer")


def usable_cores() -> int:
    """Return how many cores this process may use, eight at most."""
    return max(1, min(_CORES_MAX, len(os.sched_getaffinity(0))))


def threads_for(sizes: Sequence[int], requested: int | None = None) -> int:
    """Return how many threads work on file groups of these sizes, in bytes: `requested`, or one for
    each core if there is enough work; fewer if so many of the largest would not fit into memory.
    """
    pays = usable_cores() if sum(sizes) >= _BYTES_WORTH_THREADS else 1
    fitting = _BYTES_AT_ONCE_MAX // max([*sizes, 1])
    return max(1, min(requested or pays, fitting, len(sizes)))


def beside_each_other(
    call: Callable[[_Given], _Answer],
    many: Iterable[_Given],
    *,
    threads: int,
    before_each: Callable[[], None] = lambda: None,
    on_done: Callable[[int], None] = lambda _: None,
) -> list[_Answer]:
    """Return the results of `call` for each element, in order. `before_each` and `on_done` (with
    the number of finished calls) run in this thread, and so does everything if `threads` is one.

    After the first failure no call begins, and the running ones finish. Then the error is raised;
    of several the first in order, which a single thread would have raised too.
    """
    if threads == 1:
        return _one_by_one(call, many, before_each, on_done)
    begun: list[Future[_Answer]] = []
    under_way: set[Future[_Answer]] = set()
    with ThreadPoolExecutor(threads, thread_name_prefix="sluice-work") as pool:
        for element in many:
            is_full = len(under_way) == threads
            done, under_way = wait(under_way, None if is_full else 0, FIRST_COMPLETED)
            if done:
                on_done(len(begun) - len(under_way))
            if any(future.exception() is not None for future in done):
                break
            before_each()
            begun.append(pool.submit(call, element))
            under_way.add(begun[-1])
        while under_way:
            _, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            on_done(len(begun) - len(under_way))
    return [future.result() for future in begun]


def _one_by_one(
    call: Callable[[_Given], _Answer],
    many: Iterable[_Given],
    before_each: Callable[[], None],
    on_done: Callable[[int], None],
) -> list[_Answer]:
    answers: list[_Answer] = []
    for element in many:
        before_each()
        answers.append(call(element))
        on_done(len(answers))
    return answers
