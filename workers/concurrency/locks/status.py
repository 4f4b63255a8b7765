"""The status of a table's lock for users: its holder, since when, and who waits. No decision
depends on it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workers.clock import InstantTime
from workers.concurrency.locks.bindings import Binding, read_binding, this_process
from workers.concurrency.locks.bound_lock import record_store
from workers.concurrency.locks.hudi_file import FILE_NAME, HUDI, file_holder
from workers.concurrency.locks.record import StoredLock
from workers.concurrency.locks.waiters import Waiter, read_waiters
from workers.errors import InvalidInput, LakehouseError
from workers.options.lock_options import LockProvider, LockSettings
from workers.storage.base import Storage
from workers.table_layout import HOODIE, LOCK


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The holder of a lock, as far as its record shows it; times in epoch ms."""

    owner: str
    """The owner in the record; `Apache Hudi` for its lock file."""
    writer: str | None
    instant: InstantTime | None
    """The one that is being decided."""
    epoch: int | None
    since_ms: int | None
    until_ms: int | None
    """The end of the lease without a renewal; None without a lease."""


@dataclass(frozen=True, slots=True)
class LockView:
    """The status of a lock for users."""

    provider: str
    place: str
    """Where the record is, without passwords."""
    holder: LockHolder | None
    """None if the lock is free, or if the holder is unknown; `problem` has the reason."""
    waiters: tuple[Waiter, ...]
    problem: str | None = None


UNKNOWN: Final = "unknown"
_NOWHERE: Final = (
    "Apache Hudi keeps with its writers which lock they use, and this table shows none: it may be "
    "in ZooKeeper, DynamoDB or the Hive metastore, which are not looked at here, or there is none"
)


def read_lock(
    storage: Storage,
    now_ms: int,
    environment: Mapping[str, str] | None = None,
    *,
    is_foreign: bool = False,
) -> LockView:
    """Read the lock from the provider that the table is bound to. A read that fails is a `problem`
    of the view, never raised, so that a page shows it. A table of another engine (`is_foreign`)
    that no writer of Sluice has bound has the lock whose traces it shows, else an unknown one.
    """
    environment = os.environ if environment is None else environment
    try:
        waiters = tuple(read_waiters(storage, now_ms))
        binding = read_binding(storage)
        if binding is None and is_foreign:
            return _foreign_lock(storage, now_ms)
        binding = binding or Binding()
    except LakehouseError as error:
        return LockView(UNKNOWN, storage.location, None, (), str(error))
    try:
        store = record_store(binding, storage, LockSettings(), environment)
    except InvalidInput as error:
        place = binding.url or storage.location
        return LockView(str(binding.provider), place, None, waiters, str(error))
    problem = None
    holder = None
    try:
        if binding.process and binding.process != this_process():
            problem = f"only process {binding.process} knows who holds it"
        else:
            holder = _holder(binding, store.read(), now_ms)
    except LakehouseError as error:
        problem = str(error)
    finally:
        store.close()
    return LockView(str(binding.provider), store.place, holder, waiters, problem)


def _foreign_lock(storage: Storage, now_ms: int) -> LockView:
    """Read the record of Hudi's storage-based lock, which stays, or its lock file, which exists
    only while it is held.
    """
    file = storage.info(f"{HOODIE}/{FILE_NAME}")
    if file is not None:
        hudi = LockHolder(HUDI, None, None, None, file.modified_ms, None)
        place = f"{storage.location}/{file.path}"
        return LockView(LockProvider.FILESYSTEM.value, place, hudi, ())
    if storage.info(LOCK.path) is None:
        return LockView(UNKNOWN, storage.location, None, (), _NOWHERE)
    binding = Binding()
    store = record_store(binding, storage, LockSettings(), {})
    try:
        holder = _holder(binding, store.read(), now_ms)
        return LockView(str(binding.provider), store.place, holder, ())
    finally:
        store.close()


def _holder(binding: Binding, record: StoredLock | None, now_ms: int) -> LockHolder | None:
    if binding.provider == LockProvider.FILESYSTEM:
        file = file_holder(Path(binding.directory))
        if file is not None:  # One of ours may have the lease and wait for the file.
            return LockHolder(HUDI, None, None, None, file.modified_ms, None)
    if record is not None and not record.state.is_free(now_ms):
        state = record.state
        return LockHolder(
            owner=state.owner,
            writer=state.writer,
            instant=state.completing,
            epoch=state.epoch,
            since_ms=state.acquired_at_ms,
            until_ms=state.valid_until_ms,
        )
    return None
