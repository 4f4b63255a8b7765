"""The table lock as a lease, over any store of its record.

A lease alone does not stop a process that stalls past it. The decision object does: a writer that
takes over an expired lease first decides `rollback` for the instant that the stalled holder was
completing, unless it is already decided.

A lease ends when it is released, or when a waiting process has seen it unchanged for its whole
length by a clock that cannot be set. The wall clocks of holder and waiter may differ by any amount.

After a lost answer the record is read, and nothing is assumed. An owner text is written once, so
the process that finds its own there holds the lock.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Protocol

from workers.clock import InstantTime
from workers.concurrency.locks.record import (
    DRIFT_MS,
    LockState,
    RecordBusy,
    RecordStore,
    holder_token,
    owner_text,
)
from workers.concurrency.locks.record_lease import RecordLease
from workers.concurrency.locks.staleness import ClockSkew, StalenessTracker, note_skew, recent_skew
from workers.concurrency.locks.wait_queue import WAIT_QUEUE, QueueTicket
from workers.errors import LockTimeout, StorageFailed, WriteOutcomeUnknown
from workers.ports import Ports

ANNOUNCED_AFTER_S = 1.0
"""A wait of this length is shown to others."""
_POLL_MIN_S = 0.005
_POLL_MAX_S = 0.05
_POLL_SHARE = 0.1
"""The share of the time waited as first in line, which grows with the number of processes."""
_GIVE_WAY_S = 0.1
"""Other processes that wait ask about every twentieth of a second, each."""
_IN_LINE_MIN_S = 0.5
_IN_LINE_MAX_S = 2.0
HUDIS_LEASE_MS = 300_000
"""The lease of Apache Hudi's storage-based provider by default (format page, locks)."""
_UNSEEN = "a process that is, or was stopped, inside a change of the lock's record"
_log = logging.getLogger(__name__)


class TableLock(Protocol):
    """A lock of a table: the lease, the lease with Hudi's file, or the lock that the table is bound
    to.
    """

    def hold(self, *, completing: InstantTime | None = None) -> AbstractContextManager[Lease]:
        """Hold the lock; `completing` is the instant that is about to be decided under it.

        Raises LockTimeout, and StorageFailed or WriteOutcomeUnknown if the provider is out of
        reach.
        """


class Lease(Protocol):
    """One holding of the lock. The holder confirms it before it publishes."""

    @property
    def provider(self) -> str:
        """The provider's name, as `hoodie.write.lock.provider` spells it."""

    @property
    def epoch(self) -> int:
        """Greater than that of every holding before."""

    @property
    def acquired_at_ms(self) -> int:
        """The begin of the holding, in epoch ms by the holder's clock."""

    @property
    def waited_ms(self) -> int:
        """Time from the request for the lock to the holding."""

    @property
    def skew(self) -> ClockSkew | None:
        """The latest difference of clocks that this process found at the lock; None if there was
        none lately.
        """

    def completes(self, what: str) -> None:
        """Record the instant that is about to be decided under this lease, if it was not known
        before.

        Raises LeaseLost.
        """

    def confirm(self) -> None:
        """Check that the lock is still held, right before an action that only its holder may do.
        Raises LeaseLost if another process may hold it by now.
        """


def format_lease_metadata(lease: Lease) -> str:
    """Return the JSON with which a commit describes the holding that it was decided under."""
    facts: dict[str, object] = {
        "provider": lease.provider,
        "epoch": lease.epoch,
        "waited_ms": lease.waited_ms,
    }
    if (skew := lease.skew) is not None:
        seen = {"ahead_ms": skew.ahead_ms, "writer": skew.writer, "instant": skew.instant}
        facts |= {"skew": seen}
    return json.dumps(facts)


class WaitObserver(Protocol):
    """An observer of one wait, which publishes it for others."""

    def begin(self, completing: InstantTime | None, holder: str, waited_ms: int) -> None:
        """Handle a wait that has become long. Called once at most."""

    def end(self) -> None:
        """Handle the end of the wait, with the lock or without. Called once after `begin`."""


class LeaseLock:
    """A `TableLock` over one record. Threads of one process wait in a queue, processes poll the
    store. `on_takeover` gets the instant that a holder with an expired lease was completing, before
    the lock is taken over. A holding ends after `lease_s` without a renewal; it is renewed every
    `renew_s`.
    """

    def __init__(
        self,
        store: RecordStore,
        ports: Ports,
        *,
        on_takeover: Callable[[InstantTime], None],
        provider: str = "storage",
        writer: str = "",
        table: str = "",
        lease_s: float = 30,
        renew_s: float = 10,
        wait_ms: int = 60_000,
        waiting: WaitObserver | None = None,
        sightings: StalenessTracker | None = None,
        foreign_lease_ms: Callable[[], int] = lambda: HUDIS_LEASE_MS,
    ) -> None:
        """Prepare the lock. `foreign_lease_ms` returns how long a holder whose record does not
        contain its lease may stay without renewing it.
        """
        self._store = store
        self._ports = ports
        self._on_takeover = on_takeover
        self._provider = provider
        self._writer = writer
        self._table = table
        self._lease_ms = int(lease_s * 1000)
        self._renew_s = renew_s
        self._wait_ms = wait_ms
        self._waiting = waiting
        self._sightings = sightings or StalenessTracker()
        self._foreign_lease_ms = cache(foreign_lease_ms)

    @contextmanager
    def hold(self, *, completing: InstantTime | None = None) -> Iterator[RecordLease]:
        """Hold the lease, as `TableLock.hold` describes."""
        try:
            with WAIT_QUEUE.join(self._store.place, goes_first=completing is not None) as place:
                lease = self._acquire(completing, place)
                renewal = self._ports.scheduler.every(
                    self._renew_s, lease.renew, name="sluice-lease"
                )
                is_through = False
                try:
                    yield lease
                    is_through = True
                finally:
                    renewal.stop()
                    if not (is_through and self._leave_to_next(lease, place)):
                        lease.release()
        finally:
            self._store.close()

    def _leave_to_next(self, lease: RecordLease, place: QueueTicket) -> bool:
        """Leave the lease to the next thread, after a block that ended without an error: no process
        has to be fenced then. Return False if the lease must be released.
        """
        if not lease.is_held:
            return False
        is_left = WAIT_QUEUE.leave_to_next(self._store.place, place, holder_token(lease.owner))
        if is_left:
            lease.leave()
        return is_left

    def _acquire(self, completing: InstantTime | None, place: QueueTicket) -> RecordLease:
        attempt = _Attempt(self._ports.ids.token(), completing, self._ports.clock.monotonic_s())
        try:
            return self._wait(attempt, place)
        except BaseException:
            self._release_inherited(place)
            raise
        finally:
            if attempt.is_announced and self._waiting is not None:
                self._waiting.end()

    def _release_inherited(self, place: QueueTicket) -> None:
        """Release a lease that was left to a thread which did not take it."""
        if not place.left_by:
            return
        try:
            record = self._store.read()
            if record is not None and holder_token(record.state.owner) == place.left_by:
                self._store.replace(record.state.to_ended(), record.tag)
        except (StorageFailed, WriteOutcomeUnknown) as error:
            _log.warning("lease not given back, it will run out: error=%s", error)

    def _wait(self, attempt: _Attempt, place: QueueTicket) -> RecordLease:
        clock = self._ports.clock
        in_line_s, first_at_s = _IN_LINE_MIN_S, attempt.began_s
        while True:
            if not place.is_set():
                until_s = self._wait_ms / 1000
                if not attempt.is_announced:
                    until_s = min(until_s, ANNOUNCED_AFTER_S)
                left_s = attempt.began_s + until_s - clock.monotonic_s()
                with WAIT_QUEUE.mark_waiting(place):
                    clock.wait(place, min(self._add_jitter(in_line_s), max(left_s, 0)))
                in_line_s = min(in_line_s * 1.5, _IN_LINE_MAX_S)
                if place.gives_way and not place.left_by:
                    clock.sleep(self._add_jitter(_GIVE_WAY_S))
                place.gives_way = False
                first_at_s = clock.monotonic_s()
            try:
                lease, holder = self._try_once(attempt, place.left_by)
            except RecordBusy:
                lease, holder = None, _UNSEEN
            if lease is not None:
                return lease
            waited_s = clock.monotonic_s() - attempt.began_s
            if waited_s * 1000 >= self._wait_ms:
                raise LockTimeout(
                    "the table lock stayed with somebody else",
                    table=self._table or self._store.place,
                    holder=holder,
                    waited_ms=self._wait_ms,
                    provider=self._provider,
                )
            if waited_s >= ANNOUNCED_AFTER_S and not attempt.is_announced:
                attempt.is_announced = True
                if self._waiting is not None:
                    self._waiting.begin(attempt.completing, holder, int(waited_s * 1000))
            if place.is_set():
                pause_s = _POLL_SHARE * (clock.monotonic_s() - first_at_s)
                clock.sleep(self._add_jitter(min(max(pause_s, _POLL_MIN_S), _POLL_MAX_S)))

    def _add_jitter(self, seconds: float) -> float:
        """Return between 0.5 and 1.5 times the seconds, so that waiting threads do not stay in
        step.
        """
        share = zlib.crc32(self._ports.ids.token().encode()) / 2**32
        return seconds * (0.5 + share)

    def _try_once(self, attempt: _Attempt, left_by: str) -> tuple[RecordLease | None, str]:
        """Return the lease, or its holder. `left_by` is a holding that was left to us: its holder
        has finished, so it is neither waited for nor fenced.
        """
        now_ms = self._ports.clock.now_ms()
        record = self._store.read()
        if record is None:
            first = 1 if self._store.is_lasting else max(now_ms, 1)
            state = self._state(first, attempt, now_ms)
            is_ours = self._try_change(state, lambda: self._store.create(state))
            return (self._lease(state, attempt), "") if is_ours else (None, "unknown")
        held = record.state
        is_free = held.is_expired or self._is_outlasted(held, now_ms)
        if attempt.wrote(held) and not is_free:
            # The answer was a rejection or was lost, and yet the record is ours (bug F3).
            return self._lease(held, attempt), ""
        is_over = held.is_expired or holder_token(held.owner) == left_by
        if not is_over and not is_free:
            return None, held.owner
        if not is_over and held.completing is not None and not attempt.wrote(held):
            # Before we take the lock: if we died in between, the next process would not know the
            # former holder.
            self._on_takeover(held.completing)
        state = self._state(held.epoch + 1, attempt, now_ms)
        is_ours = self._try_change(state, lambda: self._store.replace(state, record.tag))
        if is_ours and not left_by:
            WAIT_QUEUE.record_takeover(self._store.place, after=holder_token(held.owner))
        return (self._lease(state, attempt), "") if is_ours else (None, held.owner)

    def _is_outlasted(self, held: LockState, now_ms: int) -> bool:
        """Check if this process saw the record unchanged for longer than its holder may go without
        renewing it. The wall clock decides only for foreign holders, because they judge each other
        by it.
        """
        now_s, place = self._ports.clock.monotonic_s(), self._store.place
        lease_ms = held.lease_ms
        if lease_ms is not None:
            note_skew(self._sightings, place, held, lease_ms, now_ms, now_s)
        seen_s = self._sightings.unchanged_for_s(place, held, now_s)
        if lease_ms is None:
            if held.is_free(now_ms):
                return True
            lease_ms = self._foreign_lease_ms()
        return seen_s * 1000 > lease_ms + DRIFT_MS

    def _try_change(self, state: LockState, change: Callable[[], bool]) -> bool:
        """Change the record, and check that it is `state` now; without a clear answer the record is
        read.

        Raises StorageFailed if it is not because the store failed, WriteOutcomeUnknown if it cannot
        be read either.
        """
        failed: StorageFailed | None = None
        try:
            if change():
                return True
        except WriteOutcomeUnknown as error:
            _log.warning("no answer whether we took the lock, looking: error=%s", error)
        except RecordBusy:
            raise
        except StorageFailed as error:
            failed = error
        try:
            record = self._store.read()
        except StorageFailed as error:
            raise WriteOutcomeUnknown(
                "nobody can say who holds the table lock; if we do, it ends with the lease",
                lock=self._store.place,
                lease_ms=self._lease_ms,
            ) from error
        if record is not None and record.state == state:
            return True
        if failed is not None:
            raise failed
        return False

    def _state(self, epoch: int, attempt: _Attempt, now_ms: int) -> LockState:
        owner = owner_text(
            epoch,
            now_ms,
            attempt.token,
            self._writer,
            attempt.completing,
            lease_ms=self._lease_ms,
        )
        return LockState(False, now_ms + self._lease_ms, owner)

    def _lease(self, state: LockState, attempt: _Attempt) -> RecordLease:
        now_s = self._ports.clock.monotonic_s()
        return RecordLease(
            self._store,
            self._ports,
            state,
            lease_ms=self._lease_ms,
            provider=self._provider,
            waited_ms=int((now_s - attempt.began_s) * 1000),
            skew=recent_skew(self._sightings, self._store.place, now_s),
        )


class _Attempt:
    """One call of `hold` until it has the lock."""

    def __init__(self, token: str, completing: InstantTime | None, began_s: float) -> None:
        self.token = token
        self.completing = completing
        self.began_s = began_s
        self.is_announced = False

    def wrote(self, state: LockState) -> bool:
        return f".{self.token}-" in state.owner
