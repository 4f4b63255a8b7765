"""A marker directory as a server has it after its start, over storage that fails on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.workers.markers.harness import INSTANT
from workers.clock import SystemClock
from workers.markers import read_markers
from workers.markers.batcher import BatchSettings, MarkerDirectory
from workers.markers.statistics import Statistics
from workers.storage.local import LocalStorage

OUT_S = 60.0


class TroubledStorage(LocalStorage):
    """A table whose appends of markers can be held back, fail, tear or be overtaken, and are
    counted; those of who asked for them can tear.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.appends: list[tuple[str, bytes]] = []
        self.before_append: Callable[[], None] | None = None
        self.after_append: Callable[[], None] | None = None
        self.torn_to: int | None = None
        self.recorded: list[bytes] = []
        self.record_torn_to: int | None = None
        self.before_record: Callable[[], None] | None = None

    def append(self, path: str, content: bytes) -> None:
        if "/REQUESTS" in path:
            return self._record(path, content)
        self.appends.append((path, content))
        if self.before_append is not None:
            self.before_append()
        if self.torn_to is not None:
            super().append(path, content[: self.torn_to])
            raise OSError(5, "input/output error")
        super().append(path, content)
        if self.after_append is not None:
            self.after_append()
        return None

    def _record(self, path: str, content: bytes) -> None:
        self.recorded.append(content)
        if self.before_record is not None:
            self.before_record()
        super().append(path, content[: self.record_torn_to])
        if self.record_torn_to is not None:
            raise OSError(5, "input/output error")


def run(
    storage: LocalStorage,
    story: Callable[[MarkerDirectory], Awaitable[None]],
    settings: BatchSettings | None = None,
    statistics: Statistics | None = None,
) -> None:
    """Tell `story` to a fresh directory, as after a start of the server."""

    async def run_story() -> None:
        with ThreadPoolExecutor(8) as pool, ThreadPoolExecutor(8) as journal_pool:
            directory = MarkerDirectory(
                storage,
                INSTANT,
                pool=pool,
                journal_pool=journal_pool,
                clock=SystemClock(),
                settings=settings or BatchSettings(),
                statistics=statistics or Statistics(since_ms=0),
            )
            async with asyncio.timeout(OUT_S):
                await story(directory)
                await directory.finish()

    asyncio.run(run_story())


def name(number: int) -> str:
    return f"p={number % 3}/f{number}.parquet.marker.CREATE"


def stored(storage: LocalStorage) -> list[str]:
    return [marker.name for marker in read_markers(storage, INSTANT)]
