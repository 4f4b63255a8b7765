"""Writers of Apache Hudi and of ours on one table at the same time: nothing that was committed is
lost, and every reader sees the same rows.

Hudi writes in optimistic mode with its filesystem lock and cleans failed writes lazily, as the
documented setting for mixed tables says.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer, PeerFailed, write_options
from tests.support.referee import referee_table
from workers.concurrency.outcome import Committed, Conflicted
from workers.lakehouse import LakehouseTable, create_table, open_table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "place": pa.string(),
    "ts": pa.int64(),
    "number": pa.int64(),
}
SCHEMA = pa.schema(_TYPES)
BUCKETS = 2
SEED = int(os.environ["SLUICE_TEST_SEED"])
COMMITS_PER_HUDIS = 8
"""Of so many commits one is Hudi's at least, so that one side does not simply outrun the other."""
_PROVIDER = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
OURS = {
    "hoodie.write.markers.type": "direct",
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": _PROVIDER,
    "hoodie.client.heartbeat.interval_in_ms": "5000",
}
HUDIS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": _PROVIDER,
    "hoodie.write.lock.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.clean.failed.writes.policy": "LAZY",
    # Lazy cleaning is a part of the cleaner, which shall leave older versions of files alone.
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1000",
}


@dataclass
class Ledger:
    """What every writer was told about its commits."""

    wanted: int
    """Commits of all together."""
    commits: dict[str, int] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
    """Keys that these commits wrote and nobody else writes."""
    maybe: set[str] = field(default_factory=set)
    """Keys of writes of Hudi that raised: it may have committed all the same."""
    conflicts: dict[str, int] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def won(self, writer: str, rows: pa.Table) -> None:
        with self._lock:
            self.commits[writer] = self.commits.get(writer, 0) + 1
            self.committed |= own_keys(rows)

    def lost(self, writer: str) -> None:
        with self._lock:
            self.conflicts[writer] = self.conflicts.get(writer, 0) + 1

    @property
    def is_enough(self) -> bool:
        by_hudi = self.commits.get("hudi", 0)
        return (
            sum(self.commits.values()) >= self.wanted and by_hudi * COMMITS_PER_HUDIS >= self.wanted
        )


@pytest.mark.parametrize("commits", [100, pytest.param(200, marks=pytest.mark.soak)])
def test_hundreds_of_commits_of_both_engines_lose_nothing(
    location: Path, peer: HudiPeer, commits: int
) -> None:
    create_table(
        location,
        name="mixed",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["place"],
        ordering=["ts"],
        table_type="COPY_ON_WRITE",
        options={"hoodie.bucket.index.num.buckets": str(BUCKETS)},
    )
    ledger, started = Ledger(commits), time.monotonic()

    def goes_on() -> bool:
        is_late = time.monotonic() - started > 400
        return not (ledger.is_enough or ledger.failures or is_late)

    writers = [
        threading.Thread(
            target=until_done, args=(name, ledger, goes_on, ours(location, name, ledger))
        )
        for name in ("a", "b")
    ]
    writers.append(
        threading.Thread(
            target=until_done, args=("hudi", ledger, goes_on, hudis(location, peer, ledger))
        )
    )
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert not ledger.failures, ledger.failures
    assert ledger.is_enough, (ledger.commits, ledger.conflicts)
    table = open_table(location)
    assert_nothing_is_lost(table, ledger)
    assert_all_read_the_same(table, location, peer)


def until_done(
    name: str,
    ledger: Ledger,
    goes_on: Callable[[], bool],
    write: Callable[[random.Random, int], None],
) -> None:
    chance, number = random.Random(f"{SEED} {name}"), 0
    try:
        while goes_on():
            write(chance, number)
            number += 1
    except BaseException as error:  # noqa: BLE001 - the test's own thread reports it
        ledger.failures.append(error)


def ours(location: Path, name: str, ledger: Ledger) -> Callable[[random.Random, int], None]:
    table = open_table(location)

    def write(chance: random.Random, number: int) -> None:
        rows = rows_of(name, number)
        match table.write(rows, options=OURS | {"sluice.writer.name": name}):
            case Committed():
                ledger.won(name, rows)
            case Conflicted():
                ledger.lost(name)
            case other:
                raise AssertionError(f"{name} ended as {other}")
        # Hudi asks for the lock ten times a second; nobody shall stand on it.
        time.sleep(chance.uniform(0.2, 0.8))

    return write


def hudis(location: Path, peer: HudiPeer, ledger: Ledger) -> Callable[[random.Random, int], None]:
    options = write_options(
        name="mixed",
        record_key=["id"],
        partition_by=["place"],
        ordering=["ts"],
        buckets=BUCKETS,
        table_type="COPY_ON_WRITE",
        **HUDIS,
    )

    def write(chance: random.Random, number: int) -> None:
        rows = rows_of("hudi", number)
        try:
            peer.write(location, rows, options)
            ledger.won("hudi", rows)
        except PeerFailed as error:
            if not is_a_conflict(str(error)):
                raise
            ledger.lost("hudi")
            ledger.maybe |= own_keys(rows)
        time.sleep(chance.uniform(0.0, 0.2))

    return write


def is_a_conflict(message: str) -> bool:
    """Of its write, of the lock, or over a failed write of Hudi's that both sides rolled back at
    once: Hudi raises then, its own commit of before stands or not.
    """
    known = (
        "HoodieWriteConflictException",
        "ConcurrentModificationException",
        "HoodieLockException",
        "HoodieRollbackException",
    )
    return any(name in message for name in known)


def rows_of(writer: str, number: int) -> pa.Table:
    """A key that nobody else writes in a place of its own; every third time one more in the place
    that all write to, and the key there that all of them change.
    """
    places = [(f"{writer}-{number}", writer)]
    if number % 3 == 0:
        places += [(f"{writer}-{number}-beside", "shared"), ("everybody's", "shared")]
    moment = time.time_ns() // 1_000_000
    rows: list[dict[str, Any]] = [
        {"id": one, "place": place, "ts": moment, "number": number} for one, place in places
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def own_keys(rows: pa.Table) -> set[str]:
    """Those that one write alone has."""
    return {str(key) for key in rows.column("id").to_pylist()} - {"everybody's"}


def assert_nothing_is_lost(table: LakehouseTable, ledger: Ledger) -> None:
    keys = own_keys(table.read())
    assert ledger.committed <= keys, sorted(ledger.committed - keys)
    assert keys <= ledger.committed | ledger.maybe, sorted(keys - ledger.committed)


def assert_all_read_the_same(table: LakehouseTable, location: Path, peer: HudiPeer) -> None:
    ours = by_key(table.read())

    assert by_key(referee_table(location)) == ours, "hudi-rs"
    assert by_key(peer.read(location)) == ours, "Apache Hudi"


def by_key(rows: pa.Table) -> list[dict[str, Any]]:
    sorted_rows: list[dict[str, Any]] = rows.select(SCHEMA.names).sort_by("id").to_pylist()
    return sorted_rows
