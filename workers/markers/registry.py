"""The marker directories that this server may touch, and its memory of each.

A table must be strictly below one of the roots, in a directory after every symbolic link is
followed; and the marker directory must be where the table requires it, not a link to elsewhere.
Blocking calls run in the pool.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from workers.clock import Clock, InstantTime
from workers.errors import InvalidInput, LakehouseError, TableNotFound
from workers.locations import is_bucket_location, lies_under, resolve_location
from workers.markers.batcher import BatchSettings, MarkerDirectory, MarkerServerBusy
from workers.markers.marker import markers_directory
from workers.markers.statistics import Statistics
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.table_layout import HOODIE, PROPERTIES

_DIRECTORIES_MAX = 1_000
_TRUSTED_S = 1.0  # How long where a path leads is believed without looking; writes always look.


class TableOutsideRoots(LakehouseError):
    """The table is not below a directory that this server was given."""

    code = "outside_roots"


class MarkerDirectories:
    """The requested directories, at most 1000; iterated in order of use, idlest first."""

    def __init__(
        self,
        roots: Sequence[str | Path],
        *,
        pool: Executor,
        journal_pool: Executor,
        clock: Clock,
        settings: BatchSettings,
        statistics: Statistics,
        open_storage: Callable[[Any], Storage] = open_storage,
    ) -> None:
        self._roots = tuple(resolve_location(str(root)) for root in roots)
        self._pool = pool
        self._journal_pool = journal_pool
        self._clock = clock
        self._settings = settings
        self._statistics = statistics
        self._open_storage = open_storage
        self._known: dict[tuple[str, InstantTime], MarkerDirectory] = {}
        self._looks: dict[tuple[str, InstantTime], asyncio.Task[MarkerDirectory]] = {}
        self._seen: dict[tuple[str, InstantTime], tuple[MarkerDirectory, float]] = {}

    def __iter__(self) -> Iterator[MarkerDirectory]:
        return iter(tuple(self._known.values()))

    def find_checked(self, location: str, instant: InstantTime) -> MarkerDirectory | None:
        """Return the recent result of `find`; None when it must be checked again."""
        directory, seen_s = self._seen.get((location, instant), (None, 0.0))
        return directory if self._clock.monotonic_s() < seen_s + _TRUSTED_S else None

    async def find(self, location: str, instant: InstantTime) -> MarkerDirectory:
        """Return the directory's memory, once its real path is checked; storage is not changed.
        Raises OutsideRoots, TableNotFound, InvalidInput, MarkerServerBusy.
        """
        key = location, instant
        if key not in self._looks:
            # Concurrent callers get the same answer: thousands ask when a second is over.
            self._looks[key] = asyncio.create_task(self._look(location, instant))
        return await asyncio.shield(self._looks[key])

    async def _look(self, location: str, instant: InstantTime) -> MarkerDirectory:
        loop = asyncio.get_running_loop()
        try:
            table = await loop.run_in_executor(self._pool, self._resolve, location, instant)
            return self._get_or_add(location, table, instant)
        finally:
            del self._looks[location, instant]

    def _get_or_add(self, location: str, table: str, instant: InstantTime) -> MarkerDirectory:
        # Two spellings of one table share one memory. Used last goes last, so the first is the
        # idlest.
        directory = self._known.pop((table, instant), None)
        if directory is None:
            self._make_room()
            directory = MarkerDirectory(
                self._open_storage(table if is_bucket_location(table) else Path(table)),
                instant,
                pool=self._pool,
                journal_pool=self._journal_pool,
                clock=self._clock,
                settings=self._settings,
                statistics=self._statistics,
                check_place=partial(self._recheck, table, instant),
            )
        self._known[table, instant] = directory
        if len(self._seen) >= _DIRECTORIES_MAX:
            self._seen.clear()
        self._seen[location, instant] = directory, self._clock.monotonic_s()
        return directory

    async def finish(self) -> None:
        """Return once every directory is flushed."""
        for directory in self:
            await directory.finish()

    def _make_room(self) -> None:
        """Forget idle directories: memory is a cache, and is loaded again."""
        if len(self._known) < _DIRECTORIES_MAX:
            return
        idle = next((key for key, found in self._known.items() if found.is_idle), None)
        if idle is None:
            raise MarkerServerBusy("too many marker directories at once", limit=_DIRECTORIES_MAX)
        del self._known[idle]
        self._seen.clear()

    def _resolve(self, location: str, instant: InstantTime) -> str:
        table = self._recheck(location, instant)
        if is_bucket_location(table) and self._open_storage(table).info(PROPERTIES.path) is None:
            raise TableNotFound("no table at this location", location=location)
        return table

    def _recheck(self, location: str, instant: InstantTime) -> str:
        """Check again what may have changed. A bucket has no links."""
        resolved = resolve_location(location)
        if not any(lies_under(resolved, root) for root in self._roots):
            raise TableOutsideRoots("table is outside the configured roots", location=location)
        if is_bucket_location(resolved):
            return resolved
        table = Path(resolved)
        if not (table / HOODIE).is_dir():
            raise TableNotFound("no table at this location", location=location)
        expected_path = table / markers_directory(instant)
        if Path(os.path.realpath(expected_path)) != expected_path:
            raise InvalidInput("marker directory leads elsewhere", location=location)
        return resolved
