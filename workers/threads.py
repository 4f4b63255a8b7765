"""Calls on threads beside each other, which have ended when this returns: what reads, writes and
table services use to work on several file groups at once.

Arrow lets go of the interpreter's lock while it decodes, sorts and encodes, so threads are enough.
A call begins only when a thread is free for it: nothing waits in a queue that would have to be
called back after a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

_CORES_MAX: Final = 8
_BYTES_WORTH_THREADS: Final = 4_000_000
_BYTES_AT_ONCE_MAX: Final = 160_000_000
"""Of files as they stand on storage, or of rows that wait to be written: while they are worked on
they are some three times that.
"""

_Given = TypeVar("_Given")
_Answer = TypeVar("_Answer")


def usable_cores() -> int:
    """How many cores this process may use, eight at most."""
    return max(1, min(_CORES_MAX, len(os.sched_getaffinity(0))))


def threads_for(sizes: Sequence[int], wanted: int | None = None) -> int:
    """How many threads work on file groups of these sizes, in bytes: `wanted`, or one for each core
    where there is enough to do; fewer where so many of the largest would not go into memory.
    """
    pays = usable_cores() if sum(sizes) >= _BYTES_WORTH_THREADS else 1
    fitting = _BYTES_AT_ONCE_MAX // max([*sizes, 1])
    return max(1, min(wanted or pays, fitting, len(sizes)))


def beside_each_other(
    call: Callable[[_Given], _Answer],
    many: Iterable[_Given],
    *,
    threads: int,
    before_each: Callable[[], None] = lambda: None,
    on_done: Callable[[int], None] = lambda _: None,
) -> list[_Answer]:
    """What `call` gives for each, in order. `before_each` and `on_done` (how many are done) run in
    this thread, and so does everything where `threads` is one.

    After the first that fails none begins, and those under way come to their end. Then it is
    raised; of several the first in order, which is the one that a single thread would have met.
    """
    if threads == 1:
        return _one_by_one(call, many, before_each, on_done)
    begun: list[Future[_Answer]] = []
    under_way: set[Future[_Answer]] = set()
    with ThreadPoolExecutor(threads, thread_name_prefix="sluice-work") as pool:
        for given in many:
            is_full = len(under_way) == threads
            done, under_way = wait(under_way, None if is_full else 0, FIRST_COMPLETED)
            if done:
                on_done(len(begun) - len(under_way))
            if any(future.exception() is not None for future in done):
                break
            before_each()
            begun.append(pool.submit(call, given))
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
    for given in many:
        before_each()
        answers.append(call(given))
        on_done(len(answers))
    return answers
