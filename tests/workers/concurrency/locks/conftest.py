"""Every lock provider on a real server or file of its own, and clients of one table's lock."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from tests.support.clocks import ManualClock, MortalScheduler
from tests.support.fixtures import tables_root
from tests.support.lock_process import LockProcess
from tests.support.lock_providers import PROVIDERS, Servers, options_for, servers
from workers.clock import Clock, SystemClock
from workers.concurrency.lock_takeover import fence_previous_holder
from workers.concurrency.locks.bound_lock import BoundLock
from workers.lakehouse import create_table
from workers.options.write_options import write_options
from workers.ports import Ports, RandomIds
from workers.storage.base import Storage
from workers.table.table import Table

__all__ = ["servers", "tables_root"]


class Client:
    """Somebody with a clock, threads and a storage handle of his own who wants the lock.

    On a manual clock the lease is renewed when that is moved, else by a thread.
    """

    def __init__(
        self,
        table: Table,
        options: Mapping[str, str],
        *,
        clock: Clock | None = None,
        storage: Storage | None = None,
        writer: str = "",
        wait_ms: int = 0,
        lease_s: int = 30,
    ) -> None:
        self.scheduler = MortalScheduler(clock if isinstance(clock, ManualClock) else None)
        self.storage = storage or table.storage
        given = {
            **options,
            "hoodie.write.lock.wait_time_ms": str(wait_ms),
            "hoodie.write.lock.storage.validity.timeout.secs": str(lease_s),
            "sluice.writer.name": writer,
        }
        ports = Ports(clock or SystemClock(), RandomIds(), self.scheduler)
        self.lock = BoundLock(
            self.storage,
            ports,
            write_options(given),
            on_takeover=partial(fence_previous_holder, table),
        )
        self.held = self.lock.hold


class StartProcess(Protocol):
    def __call__(self, **order: Any) -> LockProcess: ...


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def options(provider: str, servers: Servers) -> dict[str, str]:
    return options_for(provider, servers)


@pytest.fixture
def table(tables_root: Path) -> Table:
    place = Path(tempfile.mkdtemp(dir=tables_root)) / "table"
    schema = pa.schema({"id": pa.int64()})
    return create_table(place, name="locked", schema=schema, record_key=["id"]).table


@pytest.fixture
def start(table: Table, options: dict[str, str]) -> Iterator[StartProcess]:
    processes: list[LockProcess] = []

    def started(**order: Any) -> LockProcess:
        process = LockProcess(Path(table.storage.location), options, **order)
        processes.append(process)
        return process

    yield started
    for process in processes:
        process.end()
