"""The table lock: a lease kept by conditional writes on the table's own storage, as Hudi's
storage-based lock.

File `.hoodie/.locks/table_lock.json` with exactly Hudi's fields `expired`, `validUntil` (epoch ms)
and `owner`. The owner text of ours is `sluice/<epoch>/<token>/<instant being completed or ->`. The
epoch grows with every acquisition.

A lease alone stops nobody who sleeps past it. What does is the decision object: whoever takes over
a lease that ran out first decides `rollback` for the instant that the sleeper was completing,
unless it was decided already.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import (
    LeaseLost,
    LockTimeout,
    MalformedTable,
    NotFound,
    StorageFailed,
    WriteOutcomeUnknown,
)
from workers.ports import Ports
from workers.storage.base import Storage

LOCK_PATH = ".hoodie/.locks/table_lock.json"
DRIFT_MS = 500
_POLL_FIRST_S = 0.005
_POLL_MAX_S = 0.1
_PREFIX = "sluice"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockState:
    is_expired: bool
    valid_until_ms: int
    owner: str

    @property
    def epoch(self) -> int:
        """Of a foreign owner: its end of validity, which is greater than any epoch counted so
        far.
        """
        parts = self.owner.split("/")
        return int(parts[1]) if len(parts) == 4 and parts[0] == _PREFIX else self.valid_until_ms

    @property
    def completing(self) -> InstantTime | None:
        parts = self.owner.split("/")
        is_ours = len(parts) == 4 and parts[0] == _PREFIX
        return parts[3] if is_ours and parts[3] != "-" else None

    def is_free(self, now_ms: int) -> bool:
        return self.is_expired or now_ms > self.valid_until_ms + DRIFT_MS

    def encode(self) -> bytes:
        body = {
            "expired": self.is_expired,
            "validUntil": self.valid_until_ms,
            "owner": self.owner,
        }
        return json.dumps(body, separators=(",", ":")).encode()


class TableLock:
    def __init__(
        self,
        storage: Storage,
        ports: Ports,
        *,
        on_takeover: Callable[[InstantTime], None],
        lease_s: float = 30,
        renew_s: float = 10,
        wait_ms: int = 60_000,
    ) -> None:
        self._storage = storage
        self._ports = ports
        self._on_takeover = on_takeover
        self._lease_ms = int(lease_s * 1000)
        self._renew_s = renew_s
        self._wait_ms = wait_ms

    @contextmanager
    def held(self, *, completing: InstantTime | None = None) -> Iterator[Lease]:
        """Hold the lock; name the instant that is about to be decided under it.

        Raises LockTimeout.
        """
        lease = self._acquire(completing)
        renewal = self._ports.scheduler.every(self._renew_s, lease.renew, name="sluice-lease")
        try:
            yield lease
        finally:
            renewal.stop()
            lease.release()

    def _acquire(self, completing: InstantTime | None) -> Lease:
        clock = self._ports.clock
        deadline = clock.monotonic_s() + self._wait_ms / 1000
        pause_s = _POLL_FIRST_S
        while True:
            lease, holder = self._try_once(completing)
            if lease is not None:
                return lease
            if clock.monotonic_s() >= deadline:
                raise LockTimeout(
                    "the table lock stayed with somebody else",
                    table=self._storage.location,
                    holder=holder,
                    waited_ms=self._wait_ms,
                )
            clock.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _POLL_MAX_S)

    def _try_once(self, completing: InstantTime | None) -> tuple[Lease | None, str]:
        now_ms = self._ports.clock.now_ms()
        token = self._ports.ids.token()
        try:
            standing = self._storage.read_tagged(LOCK_PATH)
        except NotFound:
            state = self._state(1, token, completing, now_ms)
            if not self._storage.put_if_absent(LOCK_PATH, state.encode()):
                return None, "unknown"
            return Lease(self._storage, self._ports, state, self._lease_ms), ""
        held = decode_lock(standing.content)
        if not held.is_free(now_ms):
            return None, held.owner
        if not held.is_expired and held.completing is not None:
            # Before we take the lock: were we to die in between, the next one would not know of
            # him.
            self._on_takeover(held.completing)
        state = self._state(held.epoch + 1, token, completing, now_ms)
        if self._storage.replace_if_match(LOCK_PATH, state.encode(), standing.tag) is None:
            return None, held.owner
        return Lease(self._storage, self._ports, state, self._lease_ms), ""

    def _state(
        self, epoch: int, token: str, completing: InstantTime | None, now_ms: int
    ) -> LockState:
        owner = f"{_PREFIX}/{epoch}/{token}/{completing or '-'}"
        return LockState(False, now_ms + self._lease_ms, owner)


class Lease:
    """One holding of the lock. Whoever publishes under it confirms it first."""

    def __init__(self, storage: Storage, ports: Ports, state: LockState, lease_ms: int) -> None:
        self._storage = storage
        self._ports = ports
        self._state = state
        self._lease_ms = lease_ms
        self._is_lost = False

    @property
    def epoch(self) -> int:
        return self._state.epoch

    def completes(self, what: str) -> None:
        """Say what is about to be decided under this lease, when that is known only now.

        Raises LeaseLost.
        """
        head, _, _ = self._state.owner.rpartition("/")
        self._replace(LockState(False, self._state.valid_until_ms, f"{head}/{what}"))
        self.confirm()

    def confirm(self) -> None:
        """Raises LeaseLost when the lock may be somebody else's by now."""
        now_ms = self._ports.clock.now_ms()
        if self._is_lost or now_ms >= self._state.valid_until_ms or not self._is_mine():
            self._is_lost = True
            raise LeaseLost("the table lock ran out while it was held", owner=self._state.owner)

    def renew(self) -> None:
        if self._is_lost:
            return
        now_ms = self._ports.clock.now_ms()
        if now_ms >= self._state.valid_until_ms:
            self._is_lost = True
            return
        try:
            self._replace(LockState(False, now_ms + self._lease_ms, self._state.owner))
        except (StorageFailed, WriteOutcomeUnknown) as error:
            _log.warning("lease not renewed, trying again: error=%s", error)

    def release(self) -> None:
        """Mark the lease as ended, unless it passed to somebody else already."""
        if not self._is_lost:
            self._replace(LockState(True, self._state.valid_until_ms, self._state.owner))
            self._is_lost = True

    def _replace(self, state: LockState) -> None:
        standing = self._storage.read_tagged(LOCK_PATH)
        if decode_lock(standing.content).owner != self._state.owner:
            self._is_lost = True
            return
        if self._storage.replace_if_match(LOCK_PATH, state.encode(), standing.tag) is None:
            self._is_lost = True
        else:
            self._state = state

    def _is_mine(self) -> bool:
        return decode_lock(self._storage.read(LOCK_PATH)).owner == self._state.owner


def decode_lock(content: bytes) -> LockState:
    try:
        body = json.loads(content)
        return LockState(bool(body["expired"]), int(body["validUntil"]), str(body["owner"]))
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTable("the table lock file is damaged", path=LOCK_PATH) from error


def read_lock(storage: Storage) -> LockState | None:
    try:
        return decode_lock(storage.read(LOCK_PATH))
    except NotFound:
        return None
