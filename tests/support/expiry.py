"""Wait in real time until the lease and the heartbeats of stopped or killed processes run out."""

from __future__ import annotations

import time

from workers.clock import SystemClock
from workers.concurrency.heartbeat import read_heartbeats
from workers.concurrency.locks.storage_record import StorageRecord
from workers.storage.base import Storage

_WAIT_MAX_S = 120.0
"""Far more than a lease or the heartbeats that may be missed."""
_POLL_S = 0.1


def await_expiry(storage: Storage) -> None:
    deadline = time.monotonic() + _WAIT_MAX_S
    while not _has_expired(storage):
        assert time.monotonic() < deadline, "a stopped writer's lease or heartbeat does not expire"
        time.sleep(_POLL_S)


def _has_expired(storage: Storage) -> bool:
    now_ms = SystemClock().now_ms()
    lock = StorageRecord(storage).read()
    is_lock_free = lock is None or lock.state.is_free(now_ms)
    return is_lock_free and all(beat.is_expired(now_ms) for beat in read_heartbeats(storage))
