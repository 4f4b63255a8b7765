"""The asynchronous strategy, in the marker server: every period each watched instant's markers are
compared with those of its rivals.

There is a detector per instant, independent of other requests: one verdict never resets another. A
failed search is logged and the next period searches again. The verdict is on storage before any
caller receives it, so that a restarted server refuses as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Executor

from workers.clock import Clock, InstantTime
from workers.concurrency.conflicts import Conflict
from workers.concurrency.heartbeat import read_heartbeat
from workers.errors import LakehouseError
from workers.markers.base import EARLY_PARAMETER, early_from
from workers.markers.early_conflict import (
    early_conflict,
    read_early_conflict,
    record_early_conflict,
)
from workers.markers.fence import is_fenced
from workers.markers.rivals import RivalSearch, build_claims
from workers.markers.store import read_markers
from workers.options.early_detection import EarlyDetection
from workers.storage.base import Storage

_DETECTORS_MAX = 1_000
_log = logging.getLogger(__name__)


class ConflictDetector:
    """The watch of an instant, from its first durable marker until an early conflict or its end."""

    def __init__(
        self,
        storage: Storage,
        instant: InstantTime,
        settings: EarlyDetection,
        *,
        pool: Executor,
        clock: Clock,
        conflict: Conflict | None,
    ) -> None:
        self._storage = storage
        self._instant = instant
        self._settings = settings
        self._pool = pool
        self._conflict = conflict
        self._search = RivalSearch(storage, instant, settings, clock)
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.Future[bool] | None = None
        self._is_recording = False

    @property
    def is_running(self) -> bool:
        """True while the watch runs: not stopped, no verdict, and the writer's heartbeat is
        live.
        """
        return self._task is not None and not self._task.done()

    async def raise_if_early_conflict(self) -> None:
        """Reject further writes of an instant that cannot commit.

        Raises EarlyConflict, also when the verdict is only just being recorded: others may see it
        on storage already.
        """
        if self._is_recording and self._looking is not None:
            await asyncio.wait([self._looking])
        if self._conflict is not None:
            raise early_conflict(self._instant, self._conflict)

    def watch(self) -> None:
        """Start the watch; idempotent. A watch that ended with a lapsed heartbeat restarts with its
        writer.
        """
        if self._conflict is None and not self.is_running:
            self._task = asyncio.create_task(self._watch())

    def stop(self) -> None:
        """Cancel the watch, if there is one; the verdict stays, and `watch` may start another."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        await asyncio.sleep(self._settings.initial_delay_ms / 1000)
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._looking = loop.run_in_executor(self._pool, self.look)
                is_over = await self._looking
            except (OSError, LakehouseError) as error:
                _log.warning("could not look for rivals: instant=%s %s", self._instant, error)
                is_over = False
            if is_over:
                return
            await asyncio.sleep(self._settings.period_ms / 1000)

    def look(self) -> bool:
        """Search once, in a thread; True when no search is needed any longer."""
        storage, instant = self._storage, self._instant
        beat = read_heartbeat(storage, instant)
        if beat is None or beat.is_expired(self._clock.now_ms()) or is_fenced(storage, instant):
            return True
        recorded = read_early_conflict(storage, instant)
        conflict = recorded or self._search.find(
            build_claims(instant, read_markers(storage, instant))
        )
        if conflict is None:
            return False
        self._is_recording = True
        try:
            if recorded is None:
                record_early_conflict(storage, instant, conflict)
                _log.info("early conflict: instant=%s rival=%s", instant, conflict.rival)
            self._conflict = conflict
        finally:
            self._is_recording = False
        return True


class Detectors:
    """The detectors of the instants that this server watches, with their verdicts in memory."""

    def __init__(self, *, pool: Executor, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._known: dict[tuple[str, InstantTime], ConflictDetector] = {}

    async def of(
        self, storage: Storage, instant: InstantTime, parameters: Mapping[str, str]
    ) -> ConflictDetector | None:
        """Return the instant's detector, created on first use; None when the request has no
        detection. Raises InvalidInput.
        """
        if (text := parameters.get(EARLY_PARAMETER)) is None:
            return None
        settings = early_from(text)
        key = storage.location, instant
        if key not in self._known:
            loop = asyncio.get_running_loop()
            recorded = await loop.run_in_executor(self._pool, read_early_conflict, storage, instant)
            self._make_room()
            # Another request may have been faster while this one waited.
            self._known.setdefault(
                key,
                ConflictDetector(
                    storage,
                    instant,
                    settings,
                    pool=self._pool,
                    clock=self._clock,
                    conflict=recorded,
                ),
            )
        return self._known[key]

    def stop(self) -> None:
        """Cancel every watch, when the server ends."""
        for detector in self._known.values():
            detector.stop()

    def _make_room(self) -> None:
        """Forget a detector, an ended one first; its verdict is read from storage again."""
        if len(self._known) < _DETECTORS_MAX:
            return
        idle = [key for key, detector in self._known.items() if not detector.is_running]
        key = idle[0] if idle else next(iter(self._known))
        self._known.pop(key).stop()
