"""The lock of one table, by the provider that it is bound to."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from workers.clock import InstantTime
from workers.concurrency.locks.bindings import (
    Binding,
    binding_for,
    read_binding,
    read_tagged_binding,
)
from workers.concurrency.locks.database_record import database_record
from workers.concurrency.locks.hudi_file import HudiFileLock
from workers.concurrency.locks.in_process_record import InProcessRecord
from workers.concurrency.locks.lease import HUDIS_LEASE_MS, Lease, LeaseLock, TableLock
from workers.concurrency.locks.record import RecordBusy, RecordStore
from workers.concurrency.locks.redis_record import RedisRecord
from workers.concurrency.locks.staleness import StalenessTracker
from workers.concurrency.locks.storage_record import StorageRecord
from workers.concurrency.locks.waiters import StorageWaitObserver
from workers.errors import LeaseLost
from workers.files.properties import load_properties
from workers.options.lock_options import LockProvider, LockSettings
from workers.options.option_values import integer
from workers.options.write_keys import LEASE_KEY
from workers.options.write_options import WriteOptions
from workers.ports import Ports
from workers.storage.base import Storage
from workers.table_layout import LOCK_BINDING

_CHANGES_MAX = 5
_FOREIGN_LEASE_MAX_S = 86_400
_UNBOUND = Binding()
_warned: set[str] = set()
_log = logging.getLogger(__name__)


class BoundLock:
    """A `TableLock` by the table's binding."""

    def __init__(
        self,
        storage: Storage,
        ports: Ports,
        options: WriteOptions,
        *,
        on_takeover: Callable[[InstantTime], None],
    ) -> None:
        self._storage = storage
        self._ports = ports
        self._options = options
        self._on_takeover = on_takeover
        self._sightings = storage.cache.of_kind(StalenessTracker)

    @contextmanager
    def hold(self, *, completing: InstantTime | None = None) -> Iterator[Lease]:
        """Hold the table's lock, as `TableLock.hold` describes. Raises InvalidInput if the options
        name another lock.
        """
        for _ in range(_CHANGES_MAX):
            binding = self._load_binding()
            with self._lock(binding).hold(completing=completing) as lease:
                if (read_binding(self._storage) or _UNBOUND) == binding:
                    yield lease
                    return
        raise LeaseLost("the table's lock provider changed again and again", path=LOCK_BINDING.path)

    def _load_binding(self) -> Binding:
        """Return the table's binding. Binds an unbound table to the provider that the options
        name.
        """
        settings = self._options.lock
        binding = read_binding(self._storage)
        if binding is not None and not binding.is_orphaned:
            binding.check(settings, self._storage)
            return binding
        if binding is None and settings.provider is None:
            return _UNBOUND
        self._bind(settings)
        binding = read_binding(self._storage) or _UNBOUND
        binding.check(settings, self._storage)  # Another writer may have been first.
        return binding

    def _bind(self, settings: LockSettings) -> None:
        """Write the binding under the storage lease, which an unbound table has."""
        binding = binding_for(settings, self._storage) if settings.provider else _UNBOUND
        self._try_out(binding)
        with self._lease_lock(_UNBOUND).hold() as lease:
            tagged_binding = read_tagged_binding(self._storage)
            if tagged_binding is not None and not tagged_binding[0].is_orphaned:
                return
            lease.confirm()
            if tagged_binding is None:
                self._storage.put_if_absent(LOCK_BINDING.path, binding.encode())
            else:
                self._storage.replace_if_match(
                    LOCK_BINDING.path, binding.encode(), tagged_binding[1].tag
                )

    def _try_out(self, binding: Binding) -> None:
        """Check that the provider answers before the table is bound to it. A busy record counts as
        an answer.
        """
        store = record_store(binding, self._storage, self._options.lock, os.environ)
        try:
            with suppress(RecordBusy):
                store.read()
        finally:
            store.close()

    def _lock(self, binding: Binding) -> TableLock:
        lease_lock = self._lease_lock(binding)
        if binding.provider != LockProvider.FILESYSTEM:
            return lease_lock
        _warn_of_file_locks(self._storage.location)
        return HudiFileLock(
            lease_lock,
            self._ports,
            table=self._storage.location,
            directory=Path(binding.directory),
            expire_minutes=binding.expire_minutes,
            pause_ms=binding.pause_ms,
            lease_s=self._options.lease_s,
            renew_s=self._options.renew_s,
            wait_ms=self._options.lock_wait_ms,
            waiting=self._waiting(),
            sightings=self._sightings,
        )

    def _lease_lock(self, binding: Binding) -> LeaseLock:
        options = self._options
        return LeaseLock(
            record_store(binding, self._storage, options.lock, os.environ),
            self._ports,
            on_takeover=self._on_takeover,
            provider=binding.provider,
            writer=options.writer,
            table=self._storage.location,
            lease_s=options.lease_s,
            renew_s=options.renew_s,
            wait_ms=options.lock_wait_ms,
            waiting=self._waiting(),
            sightings=self._sightings,
            foreign_lease_ms=self._foreign_lease_ms,
        )

    def _foreign_lease_ms(self) -> int:
        """Return the lease that the table's properties set for all writers, else Hudi's default.
        This writer's option is about its own lease. Raises InvalidInput.
        """
        properties = load_properties(self._storage)
        if not properties.get(LEASE_KEY):
            return HUDIS_LEASE_MS
        return 1000 * integer(properties, LEASE_KEY, least=1, most=_FOREIGN_LEASE_MAX_S)

    def _waiting(self) -> StorageWaitObserver:
        options = self._options
        return StorageWaitObserver(
            self._storage, self._ports, writer=options.writer, wait_ms=options.lock_wait_ms
        )


def record_store(
    binding: Binding, storage: Storage, settings: LockSettings, environment: Mapping[str, str]
) -> RecordStore:
    """Return the store of the record that `binding` names; nothing is opened before its first call.

    Raises InvalidInput in a process of a node whose `environment` does not contain the server.
    """
    match binding.provider:
        case LockProvider.DATABASE:
            return database_record(binding.address(settings, environment), binding.key)
        case LockProvider.REDIS:
            return RedisRecord(binding.address(settings, environment), binding.key)
        case LockProvider.IN_PROCESS:
            return InProcessRecord(storage.location)
        case _:
            return StorageRecord(storage)


def _warn_of_file_locks(table: str) -> None:
    """Log the limits of Hudi's lock file, once per process and table."""
    if table not in _warned:
        _warned.add(table)
        _log.warning(
            "this table is locked by Apache Hudi's lock file: it keeps Hudi's writers and ours "
            "apart, but a Hudi client that closes removes it whoever holds it, so several Hudi "
            "writers are not kept apart from each other: table=%s",
            table,
        )
