"""Bugs of other engines' cleaners (group G of docs/regressions.md), each as its script says."""

from __future__ import annotations

import pytest

from tests.crash.harness import COW, DEAD_AFTER_MS, State, made
from tests.crash.operations import CLEAN, UPSERT
from tests.support.clocks import ManualClock
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Crash, FaultyStorage, MemoryStorage
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.table_services import run
from tests.support.watched_storage import WatchedStorage
from workers.errors import SnapshotExpired
from workers.lakehouse import LakehouseTable, open_table
from workers.options.write_options import write_options
from workers.timeline.clean_metadata import read_clean_metadata, read_clean_plan
from workers.timeline.instant import Action, Instant
from workers.timeline.pending_plans import plan_content

OPTIONS = write_options({"hoodie.write.markers.type": "direct"})
ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}
MINUTE_MS = 60_000
POLICIES = {
    "commits": {"policy": "KEEP_LATEST_COMMITS", "commits": "1"},
    "hours": {"policy": "KEEP_LATEST_BY_HOURS", "hours": "1"},
    "versions": {"policy": "KEEP_LATEST_FILE_VERSIONS", "versions": "1"},
}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("age_minutes", [80, 200])
def test_g1_reader_within_the_declared_retention_ends_and_an_older_one_is_told(
    tables: ScenarioTables, policy: str, age_minutes: int
) -> None:
    """The clean runs while the reader is about to open its first file."""
    clock = ManualClock()
    table = tables(clock=clock, options=ONE_BUCKET)
    times = []
    for number in range(3):
        commit = table.writer("w").upsert_and_commit({"id": 1, "city": f"city {number}"})
        times.append(commit.completed_at)
        clock.advance(age_minutes * MINUTE_MS)
    cleans: list[str] = []

    def clean(call: str, path: str) -> None:
        if call == "open_data" and not cleans:
            cleans.append(path)
            run(table.table, "clean", retention_minutes="120", **POLICIES[policy])

    watched = WatchedStorage(table.location, before=clean)
    reader = open_table(table.location, ports=table.ports(), storage=watched)

    if age_minutes < 120:  # The second commit is 80 or 160 minutes old now, the third 80 or 200.
        assert reader.read(as_of=times[1]).to_pylist() == [{"id": 1, "city": "city 1"}]
    else:
        with pytest.raises(SnapshotExpired):
            reader.read(as_of=times[1])
    assert cleans
    assert table.rows() == [{"id": 1, "city": "city 2"}]


def test_g4_whichever_delete_of_a_clean_dies_the_plan_was_durable_and_is_finished() -> None:
    start = made(COW, [*CLEAN.needs, UPSERT, UPSERT])
    died_between = 0
    for die_at in range(1, 60):
        clock = StillClock(start.now_ms)
        storage = FaultyStorage(clock, start.files, die_at=die_at, moment="after")
        try:
            CLEAN.run(_opened(storage, clock, "dead"), COW.options)
            break
        except Crash:
            state = State(storage.files, clock.now_ms() + DEAD_AFTER_MS)
        gone = {path for path in _data(start) if path not in state.files}
        if not gone:
            continue
        clock = StillClock(state.now_ms)
        left = MemoryStorage(clock, state.files)
        table = _opened(left, clock, "next").table
        pending = [one for one in table.timeline().pending() if one.action is Action.CLEAN]
        died_between += len(pending)
        planned = {path for one in pending for path in _planned(left, one)}
        assert not pending or gone <= planned

        CLEAN.run(_opened(left, clock, "again"), COW.options)

        done, *_ = [
            one for one in table.timeline().iterate_completed() if one.action is Action.CLEAN
        ]
        recorded = read_clean_metadata(left.read(table.layout.path(done))).deleted_by_partition
        names = {f"{place}/{name}" for place, files in recorded.items() for name in files}
        assert gone <= names
        assert names.isdisjoint(left.files)
    assert died_between > 2


def _planned(storage: MemoryStorage, instant: Instant) -> list[str]:
    plan = read_clean_plan(plan_content(storage, instant))
    return plan.paths if plan else []


def _data(state: State) -> list[str]:
    return [path for path in state.files if path.endswith(".parquet") and ".hoodie" not in path]


def _opened(storage: MemoryStorage, clock: StillClock, prefix: str) -> LakehouseTable:
    ports = still_ports(clock, prefix=prefix)
    return open_table(storage.location, ports=ports, storage=storage)


def test_g5_after_its_savepoint_went_all_that_is_old_is_cleaned_within_two_runs(
    tables: ScenarioTables,
) -> None:
    """Archiving went past the savepoint, so nobody meets its commit on the timeline any more."""
    table = tables(options=ONE_BUCKET)
    saved = _commits(table, 2)
    run(table.table, "savepoint", instant=saved)
    held = table.data_files()[-1]
    _commits(table, 6)
    run(table.table, "archive", beyond_savepoint="true", min_commits="1", max_commits="2")
    for _ in range(2):
        run(table.table, "clean", commits="1")
        assert held in table.data_files()

    run(table.table, "delete_savepoint", instant=saved)
    for _ in range(2):
        run(table.table, "clean", commits="1")

    assert len(table.data_files()) == 1
    assert table.rows() == [{"id": 1, "city": "city 5"}]


def _commits(table: ScenarioTable, number: int) -> str:
    writer = table.writer("w")
    done = [
        writer.upsert_and_commit({"id": 1, "city": f"city {count}"}).instant
        for count in range(number)
    ]
    return done[-1]
