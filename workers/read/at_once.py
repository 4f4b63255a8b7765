"""Several streams of batches read beside each other, and given one after the other.

A thread of the pool takes a few batches of one stream and is free again: it never waits for whoever
takes the batches, so a reader that is left half read keeps no process from ending. What is read
ahead is bounded: by `ahead_bytes` of each stream that is under way, and one batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

AHEAD_BYTES: Final = 12 << 20
"""Of one stream, where memory is to be bounded. What is more waits in its file. Less than a row
group of most tables: one is read while another is taken.
"""

_One = TypeVar("_One")
Batches = Iterator[pa.RecordBatch]


def in_order(
    opened: Callable[[_One], Batches],
    many: Iterable[_One],
    *,
    threads: int,
    ahead_bytes: int = AHEAD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The batches of each, in their order; those of `threads` are read at the same time. An error
    of one is raised when it is its turn, and no later one is opened after that.
    """
    if threads == 1:
        for place in many:
            yield from opened(place)
        return
    left = iter(many)
    first_bytes = 0  # Whoever waits gets the first batch as soon as it is there.
    under_way: deque[_Stream] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="sluice-read") as pool:
        try:
            while True:
                while len(under_way) < threads and (nth := next(left, None)) is not None:
                    under_way.append(_Stream.begun(pool, opened(nth), first_bytes, ahead_bytes))
                    first_bytes = ahead_bytes
                if not under_way:
                    return
                yield from under_way[0].batches()
                under_way.popleft()
        finally:
            for stream in under_way:
                stream.close()


@dataclass(slots=True)
class _Stream:
    pool: ThreadPoolExecutor
    source: Batches
    ahead_bytes: int
    step: Future[tuple[deque[pa.RecordBatch], bool]]
    """What is being read: some batches, and whether there are no more."""

    @classmethod
    def begun(
        cls, pool: ThreadPoolExecutor, source: Batches, first_bytes: int, ahead_bytes: int
    ) -> _Stream:
        return cls(pool, source, ahead_bytes, pool.submit(_some_of, source, first_bytes))

    def batches(self) -> Batches:
        while True:
            taken, is_over = self.step.result()
            if not is_over:
                self.step = self.pool.submit(_some_of, self.source, self.ahead_bytes)
            while taken:  # Nothing here keeps what was given.
                yield taken.popleft()
            if is_over:
                return

    def close(self) -> None:
        """Files that it holds open are closed, once nobody reads them any more."""
        if not self.step.cancel():
            self.step.exception()
        if (close := getattr(self.source, "close", None)) is not None:
            close()


def _some_of(source: Batches, ahead_bytes: int) -> tuple[deque[pa.RecordBatch], bool]:
    taken: deque[pa.RecordBatch] = deque()
    size = 0
    for batch in source:
        taken.append(batch)
        size += batch.nbytes
        if size >= ahead_bytes:
            return taken, False
    return taken, True
