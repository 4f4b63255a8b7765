"""Group commit for one marker directory: many requests, one durable append, all the answers.

A flush starts as soon as the last one ended; a request that waited for `interval_ms` starts a
concurrent one on the next free MARKERS<i> file. Where a flush is slow, the server waits briefly for
writers that it answered together, because they will send again together, and no request waits for a
whole flush of others. Everything here runs on the event loop, what touches storage runs in the
pool. Never answers before the batch is durable and the instant was seen undecided afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from workers.clock import Clock, InstantTime
from workers.errors import InstantRolledBack, LakehouseError, MarkerRefused
from workers.markers.appender import MarkersAppender, MarkersVanished
from workers.markers.base import CreateResult
from workers.markers.journal import Request
from workers.markers.statistics import Statistics
from workers.storage.base import Storage
from workers.traces import Attributes, span

_SLOW_S = 0.005
"""A flush that takes as long is worth waiting for company."""
_PAUSE_SHARE = 8
"""The part of a flush's time that company is waited for."""


class MarkerServerBusy(LakehouseError):
    """The bounded queue is full. Nothing happened; ask again in a moment."""

    code = "marker_server_busy"


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Bounds of the batching in each marker directory; counts and milliseconds."""

    num_threads: int = 20
    """`hoodie.markers.timeline_server_based.batch.num_threads`: the most MARKERS<i> files."""
    interval_ms: int = 50
    """`hoodie.markers.timeline_server_based.batch.interval_ms`: the longest wait for a flush."""
    waits_interval: bool = False
    """True if the interval was configured: then it is the shortest wait as well, as in Hudi."""
    queue_max: int = 20_000
    """Names and requests that may wait in one directory; beyond that the answer is busy."""
    markers_max: int = 1_000_000
    """Names that one directory may hold."""


@dataclass(slots=True, eq=False)
class _Batch:
    """Requests with a common result; `done` has an error as value, because not every caller waits
    for it.
    """

    since_s: float
    done: asyncio.Future[LakehouseError | None]
    names: list[str] = field(default_factory=list)
    """To be written."""
    claimed: list[str] = field(default_factory=list)
    """Written before a crash without an acknowledgement, to be acknowledged now."""
    created: list[Request] = field(default_factory=list)
    """Who creates what of both."""
    requests: int = 0
    waiting: list[Callable[[LakehouseError | None], None]] = field(default_factory=list)
    """Called when `done` is."""


class MarkerDirectory:
    """The server's cache of one marker directory on storage, loaded on the first request."""

    def __init__(
        self,
        storage: Storage,
        instant: InstantTime,
        *,
        pool: Executor,
        journal_pool: Executor,
        clock: Clock,
        settings: BatchSettings,
        statistics: Statistics,
        check_place: Callable[[], object] | None = None,
    ) -> None:
        """`check_place` is called in a thread before each write; what it raises refuses it."""
        self.storage = storage
        self.instant = instant
        self.counts_by_file: dict[int, int] = {}
        self._appender = MarkersAppender(
            storage, instant, journal_pool=journal_pool, check_place=check_place
        )
        self._pool = pool
        self._clock = clock
        self._settings = settings
        self._statistics = statistics
        self._loading: asyncio.Task[None] | None = None
        self._is_loaded = False
        self._durable: dict[str, str | None] = {}  # Name to the id of the request that created it.
        self._unclaimed: set[str] = set()  # Durable, but not acknowledged before a crash.
        self._lost: dict[str, str | None] = {}  # Creators of what a crash left without a marker.
        self._flushing: dict[str, tuple[str | None, _Batch]] = {}
        self._pending: _Batch | None = None
        self._busy: set[int] = set()
        self._flushes: set[asyncio.Task[None]] = set()
        self._last_index = -1
        self._timer: asyncio.TimerHandle | None = None
        self._took_s = 0.0  # The last flush.
        self._expected = 0  # Requests that were answered and have not been followed by another.
        self._answered_s = 0.0
        self._users = 0

    @property
    def writer(self) -> str | None:
        """The writer's name in the instant's heartbeat; None where unknown or not yet loaded."""
        return self._appender.writer

    @property
    def queue_depth(self) -> int:
        """Names that wait for the next flush."""
        return 0 if self._pending is None else len(self._pending.names)

    @property
    def in_flight(self) -> int:
        """Flushes that are being written now, each to its own MARKERS<i> file."""
        return len(self._busy)

    @property
    def marker_count(self) -> int:
        """Names that are durable, as far as memory knows; 0 before the first request."""
        return len(self._durable) + len(self._unclaimed)

    @property
    def is_idle(self) -> bool:
        """True while no request waits and nothing is being flushed: it may be forgotten."""
        return self._pending is None and not self._flushes and self._users == 0

    async def create(self, names: Sequence[str], request_id: str | None) -> list[CreateResult]:
        """Make `names` durable; returns for each whether this request, or an earlier try of it,
        created it.

        Raises MarkerServerBusy, InstantRolledBack, MarkerRefused when the flush failed.
        """
        self._users += 1
        try:
            if not self._is_loaded:
                await self._load_once()
            return await self._create(names, request_id)
        finally:
            self._users -= 1

    def submit(
        self,
        name: str,
        request_id: str | None,
        deliver: Callable[[CreateResult | LakehouseError], None],
    ) -> bool:
        """Create one name like `create`, without a task for it; False when only `create` can do it.

        `deliver` is called with the result, or with what `create` would raise.
        """
        if not self._is_loaded or name in self._flushing:
            return False
        try:
            [result], [batch] = self._enqueue([name], request_id)
        except MarkerServerBusy as busy:
            deliver(busy)
        else:
            batch.waiting.append(lambda error: deliver(result if error is None else error))
        return True

    async def _create(self, names: Sequence[str], request_id: str | None) -> list[CreateResult]:
        results, awaited = self._enqueue(names, request_id)
        for each in awaited:
            if (error := await asyncio.shield(each.done)) is not None:
                # One exception object raised in many places would gather all their tracebacks.
                raise type(error)(error.message, **error.values)
        return results

    def _enqueue(
        self, names: Sequence[str], request_id: str | None
    ) -> tuple[list[CreateResult], set[_Batch]]:
        """Return the results, which hold once all the batches are done. Raises MarkerServerBusy."""
        batch = self._batch_for(len(names))
        awaited = {batch}
        results: list[CreateResult] = []
        mine = Request(request_id, [])
        for name in names:
            if name in self._durable:
                creator = self._durable[name]
            elif name in self._flushing:
                creator, other = self._flushing[name]
                awaited.add(other)
            else:
                self._flushing[name] = (request_id, batch)
                is_new = name not in self._unclaimed
                (batch.names if is_new else batch.claimed).append(name)
                mine.names.append(name)
                results.append("created")
                continue
            is_own = request_id is not None and creator == request_id
            results.append("created" if is_own else "exists")
        if mine.names:
            batch.created.append(mine)
        return results, awaited

    async def finish(self) -> None:
        """Return once nothing waits and nothing is being flushed."""
        while self._pending is not None or self._flushes:
            if self._flushes:
                await asyncio.wait(set(self._flushes))
            else:
                await asyncio.sleep(self._settings.interval_ms / 1000)

    async def forget(self) -> None:
        """Drop what memory holds; the next request loads again."""
        await self.finish()
        self._loading = None
        self._is_loaded = False
        self._clear()

    def _clear(self) -> None:
        self._durable.clear()
        self._unclaimed.clear()
        self._lost.clear()
        self.counts_by_file.clear()

    async def _load_once(self) -> None:
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        loading = self._loading
        try:
            await asyncio.shield(loading)
        except (OSError, LakehouseError):
            if self._loading is loading:
                self._loading = None  # The next request tries again.
            raise

    async def _load(self) -> None:
        loop = asyncio.get_running_loop()
        stored_names, journal = await loop.run_in_executor(self._pool, self._appender.load)
        self._clear()
        creators = dict(journal.creators)
        if journal.exists:
            # A direct marker has no line there: its writer knows that it created it.
            written = {name for names in stored_names.by_file.values() for name in names}
            self._unclaimed = written - creators.keys() - set(stored_names.direct)
        for name in stored_names.all():
            if name not in self._unclaimed:
                self._durable[name] = creators.pop(name, None)
        self._lost = creators
        self.counts_by_file = {index: len(names) for index, names in stored_names.by_file.items()}
        self._is_loaded = True

    def _batch_for(self, count: int) -> _Batch:
        """Return the batch that a request of `count` names joins; known names too, for the check of
        the fence.
        """
        batch = self._pending
        if batch is None:
            future = asyncio.get_running_loop().create_future()
            batch = self._pending = _Batch(self._clock.monotonic_s(), future)
            # Requests that are parsed in this turn of the loop shall still join.
            asyncio.get_running_loop().call_soon(self._look)
        elif len(batch.names) + batch.requests + count > self._settings.queue_max:
            raise MarkerServerBusy("queue is full", instant=self.instant, waiting=len(batch.names))
        elif 0 < self._expected <= batch.requests + 1:
            asyncio.get_running_loop().call_soon(self._look)
        if len(self._durable) + len(self._flushing) + count > self._settings.markers_max:
            raise MarkerServerBusy("too many markers", instant=self.instant)
        batch.requests += 1
        return batch

    def _look(self) -> None:
        """Start a flush now, or schedule another check."""
        batch = self._pending
        if batch is None:
            return
        if (left_s := self._get_wait_s(batch)) > 0:
            self._look_in(left_s)
            return
        index = self._free_file()
        if index is None:
            return  # The flush that frees one checks again.
        self._pending = None
        self._expected = max(0, self._expected - batch.requests)
        self._busy.add(index)
        flush = asyncio.create_task(self._flush(batch, index))
        self._flushes.add(flush)
        flush.add_done_callback(self._flushes.discard)

    def _look_in(self, left_s: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + left_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(left_s, self._on_timer)

    def _get_wait_s(self, batch: _Batch) -> float:
        """Return how long this batch still has to wait; 0 or less when it may start."""
        now_s = self._clock.monotonic_s()
        interval_s = self._settings.interval_ms / 1000
        pause_s = min(interval_s, self._took_s / _PAUSE_SHARE)
        is_slow = self._took_s >= _SLOW_S
        if self._settings.waits_interval or (self._busy and not is_slow):
            return interval_s - (now_s - batch.since_s)
        if now_s - self._answered_s > pause_s:
            self._expected = 0  # They are not coming back.
        is_alone = not self._expected and not self._busy
        if not is_slow or is_alone or 0 < self._expected <= batch.requests:
            return 0.0
        return pause_s - (now_s - batch.since_s)

    def _on_timer(self) -> None:
        self._timer = None
        self._look()

    def _free_file(self) -> int | None:
        """Return the next free file after the one used last."""
        files = self._settings.num_threads
        for step in range(1, files + 1):
            index = (self._last_index + step) % files
            if index not in self._busy:
                self._last_index = index
                return index
        return None

    async def _flush(self, batch: _Batch, index: int) -> None:
        error: LakehouseError | None = MarkerRefused("flush broke off", instant=self.instant)
        finished: tuple[str, ...] = ()
        started_s = self._clock.monotonic_s()
        try:
            facts: Attributes = {
                "sluice.instant": self.instant,
                "sluice.markers": len(batch.names),
                "sluice.requests": batch.requests,
            }
            with span("marker batch", facts):
                finished = await asyncio.get_running_loop().run_in_executor(
                    self._pool, self._appender.write, index, batch.names, batch.created
                )
            error = None
        except InstantRolledBack as fenced:
            error = fenced
        except (OSError, LakehouseError) as failure:
            error = self._fail(failure)
        finally:
            # In every case no caller may wait forever, and the file is free for the next batch.
            self._answered_s = self._clock.monotonic_s()
            self._took_s = self._answered_s - started_s
            self._expected += batch.requests
            self._settle(batch, index, finished, error)

    def _fail(self, failure: OSError | LakehouseError) -> MarkerRefused:
        self._statistics.flush_errors += 1
        if isinstance(failure, MarkersVanished):
            self._clear()
        return MarkerRefused("markers could not be written", instant=self.instant, reason=failure)

    def _settle(
        self, batch: _Batch, index: int, finished: tuple[str, ...], error: LakehouseError | None
    ) -> None:
        for name in (*batch.names, *batch.claimed):
            request_id, _ = self._flushing.pop(name)
            if error is None:
                self._durable[name] = request_id
        if error is None:
            self._unclaimed.difference_update(batch.claimed)
        for name in finished:
            self._remember_finished(name)
        if error is None and batch.names:
            added = len(batch.names) + len(finished)
            self.counts_by_file[index] = self.counts_by_file.get(index, 0) + added
            self._statistics.batch_flushed(len(batch.names))
        self._busy.discard(index)
        batch.done.set_result(error)
        for deliver in batch.waiting:
            deliver(error)
        self._look()

    def _remember_finished(self, name: str) -> None:
        """Remember a half line of a crash that is a marker now. Its request may be sent again."""
        if name in self._durable or name in self._flushing:
            return
        if name in self._lost:
            self._durable[name] = self._lost.pop(name)
        else:
            self._unclaimed.add(name)
