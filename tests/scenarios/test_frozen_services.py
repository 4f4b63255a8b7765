"""A process that carries out a table service or a rollback is stopped (SIGSTOP) at some call on the
table's files; another one does the same work, others write, and it is done once more. When it
wakes, rows, the past, the history and the markers of whoever writes just then stay as they are.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables
from tests.support.stopped_service import ROLLBACK, Order, StoppedService
from workers.errors import LakehouseError, LockTimeout, ServiceBusy
from workers.lakehouse import open_table
from workers.markers.store import files_of_markers
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers

SEED = int(os.environ["SLUICE_TEST_SEED"])
SAMPLE = 2
AT_ONCE = 2
ALL_CALLS = 1_000_000
TAKEN_UP_WITHIN_S = 120.0
OPTIONS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
    "hoodie.client.heartbeat.interval_in_ms": "5000",
    "hoodie.client.heartbeat.tolerable.misses": "2",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
    "hoodie.write.lock.wait_time_ms": "60000",
}
DAYS_S = 2 * 86_400
ANSWERS = (
    "InstantRolledBack",
    "LeaseLost",
    "LockTimeout",
    "MarkerRefused",
    "PlanChanged",
    "PlanOvertaken",
    "RollbackRefused",
    "ServiceBusy",
    "ServiceRefused",
)
"""Why it stopped, where it had not done its work. A marker is refused where its directory went with
the decided instant, between making that and the marker.
"""


def commit(table: ScenarioTable, *cities: str) -> None:
    for city in cities:
        table.writer("ingest").upsert_and_commit({"id": 1, "city": city}, {"id": 2, "city": city})


def to_clean(table: ScenarioTable) -> Order:
    commit(table, "Oslo", "Rome", "Lima", "Bergen")
    return Order("clean", {"hoodie.clean.commits.retained": "1"}, options=OPTIONS)


def to_archive(table: ScenarioTable) -> Order:
    commit(table, "Oslo", "Rome", "Lima", "Bergen")
    parameters = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}
    return Order("archive", parameters, options=OPTIONS)


def to_roll_back(table: ScenarioTable) -> Order:
    commit(table, "Oslo", "Rome")
    newest = table.writer("mistaken").upsert_and_commit({"id": 3, "city": "Bergen"})
    table.reported.remove(newest.instant)
    return Order(ROLLBACK, target=newest.instant, options=OPTIONS)


def to_repair(table: ScenarioTable) -> Order:
    """A file that a write left half done, and one that came after its instant's rollback."""
    commit(table, "Oslo")
    dead = table.writer("dead").upsert({"id": 2, "city": "Rome"})
    late = table.location / dead.written[0].stat.path
    content = late.read_bytes()
    dead.dies()
    roll_back_dead_writers(table.table, write_options(OPTIONS))
    late.write_bytes(content)
    half = table.location / ".hoodie/timeline/.sluice-tmp-abc"
    half.write_bytes(b"half")
    then = time.time() - DAYS_S
    os.utime(half, (then, then))
    return Order("repair", options=OPTIONS)


def to_compact(table: ScenarioTable) -> Order:
    commit(table, "Oslo", "Rome", "Lima")
    return Order("compaction", options=OPTIONS)


@dataclass(frozen=True, slots=True)
class Kind:
    prepare: Callable[[ScenarioTable], Order]
    table_type: str = "COPY_ON_WRITE"

    def prepared(self, tables: ScenarioTables) -> tuple[ScenarioTable, Order]:
        table = tables(table_type=self.table_type, write_options=OPTIONS)
        return table, self.prepare(table)


KINDS = {
    "archive": Kind(to_archive),
    "clean": Kind(to_clean),
    "compaction": Kind(to_compact, "MERGE_ON_READ"),
    "repair": Kind(to_repair),
    "rollback": Kind(to_roll_back),
}


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])]
)
@pytest.mark.parametrize("name", sorted(KINDS))
def test_executor_that_is_stopped_anywhere_takes_nothing_away_once_it_wakes(
    tables: ScenarioTables, name: str, every: bool
) -> None:
    kind = KINDS[name]
    calls = range(1, _calls_undisturbed(*kind.prepared(tables)) + 1)
    chance = random.Random(f"{SEED} frozen {name}")
    # Each waits until a lease has expired, so they wait at the same time.
    with ThreadPoolExecutor(AT_ONCE) as threads:
        runs = [
            threads.submit(_stop_and_wake, *kind.prepared(tables), call)
            for call in (calls if every else sorted(chance.sample(calls, SAMPLE)))
        ]
        for run in runs:
            run.result()


def _calls_undisturbed(table: ScenarioTable, order: Order) -> int:
    process = StoppedService(table.location, order)
    try:
        process.begin(stopped_before=ALL_CALLS)
        assert not process.await_stopped()
        process.thaw()
        assert "summary" in process.answer()
        return process.calls
    finally:
        process.end()


def _stop_and_wake(table: ScenarioTable, order: Order, call: int) -> None:
    at = f"SLUICE_TEST_SEED={SEED}, {order.service} stopped before call {call}"
    sleeper = StoppedService(table.location, order)
    try:
        sleeper.begin(stopped_before=call)
        sleeper.await_stopped()
        _take_up(table.location, order)
        commit(table, "Turku", "Riga", "Paris")
        _take_up(table.location, order)  # So that there is something newer than what it knows.
        beside = table.writer("beside").upsert({"id": 4, "city": "Vienna"})
        before = _seen(table, beside.last_instant)
        sleeper.thaw()
        answer = sleeper.answer()
        after = _seen(table, beside.last_instant)
    finally:
        sleeper.end()
    assert after == before, (at, answer)
    assert "summary" in answer or answer["raised"] in ANSWERS, (at, answer)
    beside.wins()


def _take_up(location: Path, order: Order) -> None:
    """As soon as the lease and the heart of who is stopped have run out."""
    deadline_s = time.monotonic() + TAKEN_UP_WITHIN_S
    while True:
        try:
            order.carry_out(location)
            return
        except (LockTimeout, ServiceBusy):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Seen:
    rows: list[Row]
    past: Mapping[str, object]
    """The rows as of each commit that anybody knows of, or why they cannot be read."""
    archived: list[str]
    markers: list[str]
    """Of who is writing."""


def _seen(table: ScenarioTable, writing: str) -> Seen:
    fresh = open_table(table.location)
    archived = [one.requested_at for one in fresh.table.list_archived_times()]
    active = [one.requested_at for one in fresh.table.timeline().list_completed_writes()]
    past = {at: _rows_at(table.location, at) for at in sorted({*archived, *active})}
    markers = files_of_markers(fresh.table.storage, writing)
    assert markers
    return Seen(table.rows(), past, sorted(archived), markers)


def _rows_at(location: Path, instant: str) -> object:
    try:
        rows = open_table(location).read(as_of=instant).to_pylist()
    except LakehouseError as error:
        return type(error).__name__
    return sorted(rows, key=lambda row: int(row["id"]))
