"""Rewrites file groups in this process, several at a time as far as memory goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from workers.storage.base import Storage
from workers.table_services.rewrite_context import GroupRewrite, RewriteContext
from workers.table_services.rewrite_slice import rewrite_group
from workers.threads import beside_each_other, threads_for
from workers.timeline.metadata import WriteStat


class Runner(Protocol):
    """Rewrites the groups of one plan somewhere and answers in any order."""

    def __call__(
        self,
        context: RewriteContext,
        groups: Sequence[GroupRewrite],
        on_done: Callable[[int], None],
    ) -> list[WriteStat]:
        """Rewrite the groups, and call `on_done` with the count of finished groups. Raises what a
        group raised.
        """
        ...


class LocalRunner:
    """See Runner. `threads` at once, fewer where the groups are large; without it as many
    as pay.
    """

    def __init__(self, storage: Storage, sizes: Sequence[int], threads: int | None = None) -> None:
        """`sizes`: the bytes of each group's slice."""
        self._storage = storage
        self._threads = threads_for(sizes, threads)

    def __call__(
        self,
        context: RewriteContext,
        groups: Sequence[GroupRewrite],
        on_done: Callable[[int], None],
    ) -> list[WriteStat]:
        """Implement Runner; after the first error no other group begins."""
        return beside_each_other(
            lambda group: rewrite_group(context, group, self._storage),
            groups,
            threads=self._threads,
            on_done=on_done,
        )
