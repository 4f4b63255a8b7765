"""Rewrites file groups in this process, several at a time as far as memory goes.

Arrow lets go of the interpreter's lock while it decodes, merges and encodes, so threads are enough.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from workers.storage.base import Storage
from workers.table_services.rewrite_context import GroupRewrite, RewriteContext
from workers.table_services.rewrite_slice import rewrite_group
from workers.timeline.metadata import WriteStat

_THREADS_MAX = 8
_BYTES_WORTH_THREADS = 4_000_000
_BYTES_AT_ONCE_MAX = 160_000_000
"""Of files as they stand on storage; in memory they are some three times that."""


class Runner(Protocol):
    """Rewrites the groups of one plan somewhere and answers in any order."""

    def __call__(
        self,
        context: RewriteContext,
        groups: Sequence[GroupRewrite],
        on_done: Callable[[int], None],
    ) -> list[WriteStat]:
        """`on_done` is told how many groups are finished. Raises what a group raised."""
        ...


class LocalRunner:
    """See Runner. `threads` at once, fewer where the groups are large; without it as many
    as pay.
    """

    def __init__(self, storage: Storage, sizes: Sequence[int], threads: int | None = None) -> None:
        """`sizes`: the bytes of each group's slice."""
        self._storage = storage
        fitting = _BYTES_AT_ONCE_MAX // max([*sizes, 1])
        is_small = sum(sizes) < _BYTES_WORTH_THREADS
        wanted_threads = threads or (1 if is_small else min(os.cpu_count() or 1, _THREADS_MAX))
        self._threads = max(1, min(wanted_threads, fitting, len(sizes)))

    def __call__(
        self,
        context: RewriteContext,
        groups: Sequence[GroupRewrite],
        on_done: Callable[[int], None],
    ) -> list[WriteStat]:
        """As Runner says; of several threads the first error ends those that have not begun."""
        if self._threads == 1:
            return self._one_by_one(context, groups, on_done)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="sluice-rewrite") as pool:
            waiting = {pool.submit(rewrite_group, context, one, self._storage) for one in groups}
            try:
                return _collected(waiting, on_done)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _one_by_one(
        self,
        context: RewriteContext,
        groups: Sequence[GroupRewrite],
        on_done: Callable[[int], None],
    ) -> list[WriteStat]:
        stats = []
        for group in groups:
            stats.append(rewrite_group(context, group, self._storage))
            on_done(len(stats))
        return stats


def _collected(waiting: set[Future[WriteStat]], on_done: Callable[[int], None]) -> list[WriteStat]:
    stats: list[WriteStat] = []
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        stats += [one.result() for one in done]
        on_done(len(stats))
    return stats
