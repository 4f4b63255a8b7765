"""Repair: what cut-off writes left is shown with its evidence and goes; nothing else does."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.stopped_calls import StoppedProcess
from tests.support.table_services import plan, run
from tests.support.watched_storage import At, Died, WatchedStorage, fails
from workers.errors import InvalidInput, PlanChanged
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import open_table
from workers.options.readability import ADOPTED_KEY, HISTORY_KEY, OWN_KEY
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers

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
    assert plan(lake.table, "repair").is_empty  # Somebody may sleep.
    for file in left:
        make_old(file)

    shown = plan(lake.table, "repair")
    outcome = run(lake.table, "repair", expected_plan_hash=shown.plan_hash)

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

    shown = plan(lake.table, "repair")
    run(lake.table, "repair", expected_plan_hash=shown.plan_hash)

    assert [item.what for item in shown.items] == [path]
    assert shown.items[0].detail == f"{dead.last_instant} was rolled back"
    assert not (lake.location / path).exists()
    alive.wins()


def test_lock_file_of_hudi_goes_when_it_is_old_and_no_writer_lives(lake: ScenarioTable) -> None:
    lock = lake.location / ".hoodie/lock"
    lock.write_bytes(b"")
    assert plan(lake.table, "repair").is_empty
    assert "may hold it" in plan(lake.table, "repair").warnings[0]
    make_old(lock)
    alive = lake.writer("alive").upsert({"id": 3, "city": "Bergen"})
    assert alive.last_instant in plan(lake.table, "repair").warnings[0]
    alive.wins()

    run(lake.table, "repair")

    assert not lock.exists()


def test_plan_that_was_shown_is_the_one_that_runs(lake: ScenarioTable) -> None:
    shown = plan(lake.table, "repair").plan_hash
    temporary = lake.location / ".sluice-tmp-abc"
    temporary.write_bytes(b"half")
    make_old(temporary)

    with pytest.raises(PlanChanged):
        run(lake.table, "repair", expected_plan_hash=shown)

    assert temporary.exists()


KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def unheard_of(lake: ScenarioTable) -> tuple[str, str]:
    """An instant that nobody requested or decided about, and its data file: as a writer leaves it
    whose rollback by another engine took its instant away.
    """
    lost = lake.writer("lost").upsert({"id": 2, "city": "Rome"})
    lost.dies()
    for file in (lake.location / ".hoodie/timeline").glob(f"{lost.last_instant}.*"):
        file.unlink()
    return lost.last_instant, lost.written[0].stat.path


@pytest.mark.parametrize("kind", KINDS)
def test_file_of_an_instant_that_nobody_knows_goes_above_the_border(
    tables: ScenarioTables, kind: str
) -> None:
    lake = tables(table_type=kind)
    lake.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    instant, path = unheard_of(lake)

    shown = plan(lake.table, "repair")
    run(lake.table, "repair", expected_plan_hash=shown.plan_hash)

    assert [(item.what, item.detail) for item in shown.items] == [
        (path, f"{instant} is neither on the timeline nor in its history")
    ]
    assert path not in lake.data_files()
    assert lake.rows() == [{"id": 1, "city": "Oslo"}]
    assert plan(lake.table, "repair").is_empty


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "torn"])
def test_file_beside_the_one_that_its_instant_committed_does_not_count_and_goes(
    lake: ScenarioTable, is_whole: bool
) -> None:
    """As an attempt leaves it that woke up behind its successor's commit, and was killed."""
    [path] = lake.data_files()
    committed = lake.location / path
    twin = committed.with_name(re.sub("_[0-9]+-[0-9]+-[0-9]+_", "_9-9-9_", committed.name))
    content = committed.read_bytes()
    twin.write_bytes(content if is_whole else content[:100])

    rows = lake.rows()
    shown = plan(lake.table, "repair")
    run(lake.table, "repair", expected_plan_hash=shown.plan_hash)

    assert rows == [{"id": 1, "city": "Oslo"}]
    assert [Path(item.what).name for item in shown.items] == [twin.name]
    assert "was committed with another file in its place" in shown.items[0].detail
    assert committed.exists()
    assert not twin.exists()


def test_who_sleeps_at_an_instant_that_repair_removed_commits_nothing(
    lake: ScenarioTable,
) -> None:
    asleep = lake.writer("asleep").upsert({"id": 2, "city": "Rome"})
    path = asleep.written[0].stat.path
    hidden = [
        file.rename(file.with_name(f"hidden-{file.name}"))
        for file in (lake.location / ".hoodie/timeline").glob(f"{asleep.last_instant}.*")
    ]
    assert "its writer lives" in plan(lake.table, "repair").warnings[0]
    asleep.dies()

    run(lake.table, "repair")
    for file in hidden:
        file.rename(file.with_name(file.name.removeprefix("hidden-")))
    asleep.is_told_rolled_back()

    assert path not in lake.data_files()
    assert lake.rows() == [{"id": 1, "city": "Oslo"}]


@pytest.mark.parametrize(
    ("since", "why"),
    [(None, "another engine kept the history"), ("99990101000000000", "whole from 9999")],
)
def test_file_of_an_unknown_instant_stays_where_the_history_does_not_tell(
    lake: ScenarioTable, since: str | None, why: str
) -> None:
    instant, path = unheard_of(lake)
    properties = load_properties(lake.storage)
    for key in (HISTORY_KEY, ADOPTED_KEY, OWN_KEY):
        properties.pop(key, None)
    store_properties(lake.storage, properties | ({HISTORY_KEY: since} if since else {}))

    shown = plan(open_table(lake.location).table, "repair")

    assert shown.is_empty
    assert f"{path} of {instant} stay" in shown.warnings[0]
    assert why in shown.warnings[0]
    lake.storage.delete(path)


def test_writer_that_begins_while_repair_lists_keeps_its_file(lake: ScenarioTable) -> None:
    """Its instant is not on the timeline that was read before the listing."""
    begun = lake.writer("begun")

    def begin() -> None:
        begun.upsert({"id": 2, "city": "Rome"}).dies()

    listing = At("list_names", "", begin)
    watched = WatchedStorage(
        lake.location, before=lambda call, path: listing(call, path) if path == "" else None
    )

    shown = plan(open_table(lake.location, storage=watched).table, "repair")

    assert listing.hits == 1
    assert begun.written[0].stat.path in lake.data_files()
    assert (shown.items, shown.warnings) == ((), ())


def test_repair_that_died_half_way_is_carried_on_by_the_hash_that_was_confirmed(
    lake: ScenarioTable,
) -> None:
    files = [lake.location / f".sluice-tmp-{number}" for number in range(3)]
    for file in files:
        file.write_bytes(b"half")
        make_old(file)
    shown = plan(lake.table, "repair")
    dying = WatchedStorage(lake.location, before=At("delete", "-tmp-1", fails(Died())))

    with pytest.raises(Died):
        run(
            open_table(lake.location, storage=dying).table,
            "repair",
            expected_plan_hash=shown.plan_hash,
        )
    assert sum(file.exists() for file in files) == 2
    run(lake.table, "repair", expected_plan_hash=shown.plan_hash)

    assert not any(file.exists() for file in files)
    assert list((lake.location / ".hoodie/.sluice").rglob("*.json")) == []


def test_repair_takes_no_parameters(lake: ScenarioTable) -> None:
    with pytest.raises(InvalidInput, match="no parameters"):
        plan(lake.table, "repair", anything="1")
