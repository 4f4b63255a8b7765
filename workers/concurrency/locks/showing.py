"""What people are shown of a table's lock: who has it, since when, and who waits. Nobody decides by
it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workers.clock import InstantTime
from workers.concurrency.locks.binding import Binding, read_binding, this_process
from workers.concurrency.locks.hudi_file import FILE_NAME, HUDI, file_holder
from workers.concurrency.locks.opening import record_store
from workers.concurrency.locks.record import StoredLock
from workers.concurrency.locks.waiters import Waiter, read_waiters
from workers.errors import InvalidInput, LakehouseError
from workers.options.lock_options import LockProvider, LockSettings
from workers.storage.base import Storage
from workers.table_layout import HOODIE, LOCK


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds a lock, as far as its record says; times in epoch ms."""

    owner: str
    """As the record says it; of Apache Hudi's lock file `Apache Hudi`."""
    writer: str | None
    instant: InstantTime | None
    """The one that is being decided."""
    epoch: int | None
    since_ms: int | None
    until_ms: int | None
    """When the lease ends if nobody renews it; None where there is no lease."""


@dataclass(frozen=True, slots=True)
class LockView:
    """A lock as people are shown it."""

    provider: str
    place: str
    """Where the record is, without passwords."""
    holder: LockHolder | None
    """None while nobody has it, or where that cannot be seen; `problem` says why not."""
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
    """Ask the provider that the table is bound to. What cannot be read is a `problem` of the view,
    never raised, so that a page shows it. A table of another engine (`is_foreign`) that no writer
    of Sluice has bound has the lock whose traces it shows, else one that cannot be seen.
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
    """By the record of Hudi's storage-based lock, which stays, or its lock file, which is there
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
