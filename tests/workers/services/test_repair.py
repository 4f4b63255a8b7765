"""Repair: what cut-off writes left is shown with its evidence and goes; nothing else does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.scenario_table import ScenarioTable
from tests.support.stopped_calls import StoppedProcess
from workers.config import write_options
from workers.errors import PlanChanged
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.services.repair import plan_repair, repair
from workers.services.service import ServiceRequest

DAYS_S = 2 * 86_400
COUNTER = ".hoodie/.locks/counter"


def make_old(file: Path) -> None:
    then = time.time() - DAYS_S
    os.utime(file, (then, then))


@pytest.fixture
def lake(table: ScenarioTable) -> ScenarioTable:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    return table


def test_files_of_killed_processes_go_once_nobody_can_be_writing_them(lake: ScenarioTable) -> None:
    lake.table.storage.put(COUNTER, b"0")
    before = set(lake.location.rglob("*"))
    for call in range(1, 12):
        killed = StoppedProcess("tests.support.counting_process", str(lake.location), COUNTER)
        killed.begin(stopped_before=call)
        killed.await_stopped()
        killed.end()
    left = [file for file in set(lake.location.rglob("*")) - before if "-" in file.name[:3]]
    assert left
    assert plan_repair(lake.table).is_empty  # Somebody may sleep.
    for file in left:
        make_old(file)

    plan = plan_repair(lake.table)
    outcome = repair(lake.table, ServiceRequest("test", expected_plan_hash=plan.plan_hash))

    assert outcome.figures["files"] == len(left)
    assert not any(file.exists() for file in left)
    assert lake.rows() == [{"id": 1, "city": "Oslo"}]


def test_temporary_files_go_with_the_next_dead_writer(lake: ScenarioTable) -> None:
    temporary = lake.location / ".hoodie/timeline/.sluice-tmp-abc"
    young = lake.location / ".hoodie/.sluice-tmp-def"
    for file in (temporary, young):
        file.write_bytes(b"half")
    make_old(temporary)
    lake.writer("dead").upsert({"id": 2, "city": "Rome"}).dies()

    roll_back_dead_writers(lake.table, write_options({}))

    assert not temporary.exists()
    assert young.exists()


def test_late_file_of_a_rolled_back_instant_goes_and_a_live_writers_stays(
    lake: ScenarioTable,
) -> None:
    dead = lake.writer("dead").upsert({"id": 2, "city": "Rome"})
    [path] = [one for one in lake.data_files() if dead.last_instant in one]
    content = (lake.location / path).read_bytes()
    dead.dies()
    roll_back_dead_writers(lake.table, write_options({}))
    alive = lake.writer("alive").upsert({"id": 3, "city": "Bergen"})
    (lake.location / path).write_bytes(content)

    plan = plan_repair(lake.table)
    repair(lake.table, ServiceRequest("test", expected_plan_hash=plan.plan_hash))

    assert [item.what for item in plan.items] == [path]
    assert plan.items[0].detail == f"{dead.last_instant} was rolled back"
    assert not (lake.location / path).exists()
    alive.wins()


def test_lock_file_of_hudi_goes_when_it_is_old_and_no_writer_lives(lake: ScenarioTable) -> None:
    lock = lake.location / ".hoodie/lock"
    lock.write_bytes(b"")
    assert plan_repair(lake.table).is_empty
    assert "may hold it" in plan_repair(lake.table).warnings[0]
    make_old(lock)
    alive = lake.writer("alive").upsert({"id": 3, "city": "Bergen"})
    assert alive.last_instant in plan_repair(lake.table).warnings[0]
    alive.wins()

    repair(lake.table, ServiceRequest("test"))

    assert not lock.exists()


def test_plan_that_was_shown_is_the_one_that_runs(lake: ScenarioTable) -> None:
    shown = plan_repair(lake.table).plan_hash
    temporary = lake.location / ".sluice-tmp-abc"
    temporary.write_bytes(b"half")
    make_old(temporary)

    with pytest.raises(PlanChanged):
        repair(lake.table, ServiceRequest("test", expected_plan_hash=shown))

    assert temporary.exists()
