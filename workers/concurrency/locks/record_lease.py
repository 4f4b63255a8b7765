"""One holding of the table lock: renewed while its holder lives, confirmed before he publishes."""

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
    holding_of,
)
from workers.concurrency.locks.sightings import ClockSkew
from workers.errors import LeaseLost, StorageFailed, WriteOutcomeUnknown
from workers.ports import Ports

_BUSY_MAX_S = 5.0
_BUSY_PAUSE_S = 0.02
_Answer = TypeVar("_Answer")
_log = logging.getLogger(__name__)


class RecordLease:
    """See Lease. Thread-safe: it is renewed beside its holder."""

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
        self._ends_s = ports.clock.monotonic_s() + self._left_s()
        self._changing = threading.RLock()

    @property
    def provider(self) -> str:
        """See Lease."""
        return self._provider

    @property
    def epoch(self) -> int:
        """See Lease."""
        return self._state.epoch

    @property
    def owner(self) -> str:
        """The owner text of this holding, with what it is completing now (`record.owner_text`)."""
        return self._state.owner

    @property
    def acquired_at_ms(self) -> int:
        """See Lease."""
        acquired = self._state.acquired_at_ms
        assert acquired is not None, self._state
        return acquired

    @property
    def waited_ms(self) -> int:
        """See Lease."""
        return self._waited_ms

    @property
    def is_lasting(self) -> bool:
        """Whether the lease lasts still, as far as this process knows."""
        with self._changing:
            return not self._has_run_out()

    def leave(self) -> None:
        """It is over, and the record as it stands is for the next holder to change."""
        with self._changing:
            self._is_lost = True

    def completes(self, what: str) -> None:
        """See Lease."""
        with self._changing:
            state = self._state.about(what)
            self._replace(state)
            self._is_lost = self._is_lost or self._state.owner != state.owner
            self.confirm()

    def confirm(self) -> None:
        """See Lease."""
        with self._changing:
            if not self._has_run_out():
                self._is_lost = self._is_lost or not self._is_mine(self._looked_at())
            # Once more: reading may have taken its time.
            if self._has_run_out():
                self._is_lost = True
                raise LeaseLost("the table lock ran out while it was held", owner=self.owner)

    def renew(self) -> None:
        """Put the end off by the length of a lease. A failure is logged, for the next call tries
        again; a lease that ran out is lost for good.
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
        """Mark the lease as ended, unless it passed to somebody else already."""
        with self._changing:
            if self._is_lost:
                return
            try:
                self._replace(self._state.ended())
            except (StorageFailed, WriteOutcomeUnknown) as error:
                # What was done under it is done; the lease ends by itself.
                _log.warning("lease not given back, it will run out: error=%s", error)
            self._is_lost = True

    def _replace(self, state: LockState) -> None:
        """Change the record if it is ours still; of an unclear answer the record itself tells."""
        record = self._patiently(self._store.read)
        if record is None or not self._is_mine(record):
            self._is_lost = True
            return
        tag = record.tag
        if not self._patiently(lambda: self._store.replace(state, tag)):
            after = self._patiently(self._store.read)
            if after is None or after.state != state:
                self._is_lost = not self._is_mine(after)
                return
        self._state = state
        self._ends_s = self._ports.clock.monotonic_s() + self._left_s()

    def _looked_at(self) -> StoredLock | None:
        """The record; None as well when the lease ran out before anybody could look. Raises
        RecordBusy.
        """
        try:
            return self._patiently(self._store.read)
        except RecordBusy:
            if self._has_run_out():
                return None
            raise

    def _patiently(self, call: Callable[[], _Answer]) -> _Answer:
        """Asks again while others are inside a change of the record, and the lease lasts. Raises
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
        """Compares epoch and token: an unanswered change may have altered what is being
        completed.
        """
        if record is None:
            return False
        return holding_of(record.state.owner) == holding_of(self._state.owner)

    def _left_s(self) -> float:
        return (self._state.valid_until_ms - self._ports.clock.now_ms()) / 1000

    def _has_run_out(self) -> bool:
        clock = self._ports.clock
        is_over = clock.now_ms() >= self._state.valid_until_ms
        return self._is_lost or is_over or clock.monotonic_s() >= self._ends_s
