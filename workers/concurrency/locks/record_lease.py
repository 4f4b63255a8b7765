"""A holding of the table lock: renewed while its holder lives, confirmed before the holder
publishes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from workers.concurrency.locks.record import (
    LockState,
    RecordBusy,
    RecordStore,
    StoredLock,
    holder_token,
)
from workers.concurrency.locks.staleness import ClockSkew
from workers.errors import LeaseLost, StorageFailed, WriteOutcomeUnknown
from workers.ports import Ports

_BUSY_MAX_S = 5.0
_BUSY_PAUSE_S = 0.02
_Answer = TypeVar("_Answer")
_log = logging.getLogger(__name__)


class RecordLease:
    """A `Lease` of a stored record. Thread-safe: another thread renews it."""

    def __init__(
        self,
        store: RecordStore,
        ports: Ports,
        state: LockState,
        *,
        lease_ms: int,
        provider: str,
        waited_ms: int,
        skew: ClockSkew | None = None,
    ) -> None:
        self._store = store
        self._ports = ports
        self._state = state
        self._lease_ms = lease_ms
        self._provider = provider
        self._waited_ms = waited_ms
        self.skew = skew
        """See Lease."""
        self._is_lost = False
        # One's own liveness is judged by a clock that cannot be set.
        self._ends_s = ports.clock.monotonic_s() + self._remaining_s()
        self._changing = threading.RLock()

    @property
    def provider(self) -> str:
        """The provider's name, as `hoodie.write.lock.provider` spells it."""
        return self._provider

    @property
    def epoch(self) -> int:
        """The number of this holding, greater than that of every holding before."""
        return self._state.epoch

    @property
    def owner(self) -> str:
        """The owner text of this holding, with what it is completing now (`record.owner_text`)."""
        return self._state.owner

    @property
    def acquired_at_ms(self) -> int:
        """The begin of the holding, in epoch ms by the holder's clock."""
        acquired = self._state.acquired_at_ms
        assert acquired is not None, self._state
        return acquired

    @property
    def waited_ms(self) -> int:
        """Time from the request for the lock to the holding."""
        return self._waited_ms

    @property
    def is_held(self) -> bool:
        """True if the lease has not ended, as far as this process knows."""
        with self._changing:
            return not self._has_run_out()

    def leave(self) -> None:
        """End the holding without a change of the record, which the next holder replaces."""
        with self._changing:
            self._is_lost = True

    def completes(self, what: str) -> None:
        """Record the instant that is about to be decided, as `Lease.completes` describes."""
        with self._changing:
            state = self._state.about(what)
            self._replace(state)
            self._is_lost = self._is_lost or self._state.owner != state.owner
            self.confirm()

    def confirm(self) -> None:
        """Check that the lock is still held, as `Lease.confirm` describes."""
        with self._changing:
            if not self._has_run_out():
                self._is_lost = self._is_lost or not self._is_mine(self._read_record())
            # Again: the read may have been slow.
            if self._has_run_out():
                self._is_lost = True
                raise LeaseLost("the table lock ran out while it was held", owner=self.owner)

    def renew(self) -> None:
        """Extend the lease by its length. A failure is logged, because the next call tries again;
        an expired lease stays lost.
        """
        with self._changing:
            if self._has_run_out():
                self._is_lost = True
                return
            now_ms = self._ports.clock.now_ms()
            try:
                self._replace(self._state.until(now_ms + self._lease_ms))
            except (StorageFailed, WriteOutcomeUnknown) as error:
                _log.warning("lease not renewed, trying again: error=%s", error)

    def release(self) -> None:
        """Mark the lease as ended, unless another process has taken it over."""
        with self._changing:
            if self._is_lost:
                return
            try:
                self._replace(self._state.to_ended())
            except (StorageFailed, WriteOutcomeUnknown) as error:
                # The work under it is done; the lease expires automatically.
                _log.warning("lease not given back, it will run out: error=%s", error)
            self._is_lost = True

    def _replace(self, state: LockState) -> None:
        """Replace the record if it is still ours; after an unclear answer the record is read."""
        record = self._retry_while_busy(self._store.read)
        if record is None or not self._is_mine(record):
            self._is_lost = True
            return
        tag = record.tag
        if not self._retry_while_busy(lambda: self._store.replace(state, tag)):
            after = self._retry_while_busy(self._store.read)
            if after is None or after.state != state:
                self._is_lost = not self._is_mine(after)
                return
        self._state = state
        self._ends_s = self._ports.clock.monotonic_s() + self._remaining_s()

    def _read_record(self) -> StoredLock | None:
        """Return the record; None also if the lease expired before it could be read. Raises
        RecordBusy.
        """
        try:
            return self._retry_while_busy(self._store.read)
        except RecordBusy:
            if self._has_run_out():
                return None
            raise

    def _retry_while_busy(self, call: Callable[[], _Answer]) -> _Answer:
        """Retry while other processes are changing the record and the lease lasts. Raises
        RecordBusy.
        """
        clock = self._ports.clock
        began_s = clock.monotonic_s()
        while True:
            try:
                return call()
            except RecordBusy:
                if self._has_run_out() or clock.monotonic_s() - began_s >= _BUSY_MAX_S:
                    raise
            clock.sleep(_BUSY_PAUSE_S)

    def _is_mine(self, record: StoredLock | None) -> bool:
        """Compare epoch and token: an unanswered change may have altered the instant being
        completed.
        """
        if record is None:
            return False
        return holder_token(record.state.owner) == holder_token(self._state.owner)

    def _remaining_s(self) -> float:
        return (self._state.valid_until_ms - self._ports.clock.now_ms()) / 1000

    def _has_run_out(self) -> bool:
        clock = self._ports.clock
        is_over = clock.now_ms() >= self._state.valid_until_ms
        return self._is_lost or is_over or clock.monotonic_s() >= self._ends_s
