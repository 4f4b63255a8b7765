"""Bugs of other engines' timelines (group A of docs/regressions.md), each as its script says."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.crash.harness import COW, DEAD_AFTER_MS, State, made
from tests.crash.operations import UPSERT
from tests.support.clocks import ManualClock
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MOMENTS, Crash, FaultyStorage, MemoryStorage
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.table_services import run
from tests.support.watched_storage import At, Sleep, WatchedStorage
from workers.clock import format_instant, next_instant
from workers.concurrency import transaction
from workers.concurrency.heartbeat import HeartbeatContent
from workers.errors import HistoryLost, LeaseLost, SnapshotExpired
from workers.files.names import LogFileName
from workers.lakehouse import LakehouseTable, open_table
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.storage.base import FileInfo
from workers.table_layout import ARCHIVED_WRITES, HEARTBEATS
from workers.table_services.compaction.proposal import propose
from workers.table_services.compaction.settings import parse_compaction_settings
from workers.timeline import transitions
from workers.timeline.instant import Action
from workers.timeline.timeline import Timeline

OPTIONS = write_options({"hoodie.write.markers.type": "direct"})
ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}
LIMITS = {"min_commits": "2", "max_commits": "3"}
HOUR_MS = 3_600_000
TIMELINE = ".hoodie/timeline"


def opened(storage: MemoryStorage, clock: StillClock, prefix: str) -> LakehouseTable:
    ports = still_ports(clock, prefix=prefix)
    return open_table(storage.location, ports=ports, storage=storage)


@pytest.mark.parametrize(
    "each", [1_000, pytest.param(10_000, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_a1_frozen_clocks_never_share_an_instant(each: int) -> None:
    """Two of them, without a lock even, and no requested file was ever replaced."""
    chance, storage = random.Random(1), MemoryStorage(StillClock())
    clock, owners, last = StillClock(), {}, dict[str, str]()
    left = {"one": each, "other": each}
    while left:
        name = chance.choice(list(left))
        time_ = next_instant(clock, last.get(name))
        last[name] = time_
        try:
            transitions.request(storage, time_, Action.COMMIT, name.encode())
        except LeaseLost:
            continue  # The other one has it: try the next.
        assert time_ not in owners
        owners[time_] = name
        left[name] -= 1
        left = {name: count for name, count in left.items() if count}

    assert len(owners) == len(storage.files) == 2 * each
    assert all(
        storage.read(f"{TIMELINE}/{time_}.commit.requested") == name.encode()
        for time_, name in owners.items()
    )


def test_a1_writers_under_the_lock_never_even_try_a_time_twice() -> None:
    state, clock = made(COW, []), StillClock()
    storage = MemoryStorage(clock, state.files)
    writers = [opened(storage, clock, prefix).table for prefix in ("one", "other")]
    content = HeartbeatContent(OPTIONS, "w", "upsert", None)
    times = [
        transaction.begin(random.Random(number).choice(writers), OPTIONS, content)
        for number in range(100)
    ]

    assert len({one.instant.requested_at for one in times}) == 100


class StaleListing(WatchedStorage):
    """Does not list what others began: how two writers come to choose one time."""

    def list_files(self, directory: str) -> list[FileInfo]:
        files = super().list_files(directory)
        return [one for one in files if directory != TIMELINE or "_" in one.name]


def test_a2_second_writer_of_an_instant_is_refused_before_any_marker_or_file(
    tables: ScenarioTables,
) -> None:
    table = tables(clock=ManualClock())
    first = table.writer("first").upsert({"id": 1, "city": "Oslo"})
    before = set(table.listing())
    second = table.writer("second", storage=StaleListing(table.location))

    with pytest.raises(LeaseLost, match="taken by another writer"):
        second.upsert({"id": 2, "city": "Rome"})

    assert set(table.listing()) == before
    first.wins()
    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_a3_instant_that_is_published_late_loses_nothing_of_a_compaction_planned_before(
    tables: ScenarioTables,
) -> None:
    """It took its time, slept past its lease, and a later writer compacted meanwhile:
    it takes another time.
    """
    clock = ManualClock()
    table = tables(clock=clock, table_type="MERGE_ON_READ", options=ONE_BUCKET)
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    stall = Sleep()
    at_request = At("put_if_absent", ".deltacommit.requested", stall)
    storage = WatchedStorage(table.location, before=at_request)
    slow = table.writer("slow", mode="non-blocking", storage=storage)
    quick = table.writer("quick", mode="non-blocking")

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(slow.upsert, {"id": 2, "city": "Rome"})
        stall.await_asleep()
        slow.falls_silent()
        clock.advance(10 * HOUR_MS)
        quick.upsert_and_commit({"id": 3, "city": "Lima"})
        run(table.table, "compaction", schedule_only="true")
        stall.wake()
        assert late.exception() is None  # Begun anew.
    slow.wins()
    run(table.table, "compaction")

    assert [row["id"] for row in table.rows()] == [1, 2, 3]


def test_a4_whoever_comes_while_a_writer_begins_takes_it_for_living(table: ScenarioTable) -> None:
    """A passer-by at every call of a beginning: none of them would roll the beginner back."""
    calls: list[str] = []
    committing: list[bool] = []

    def pass_by(call: str, path: str) -> None:
        if committing:
            return
        calls.append(call)
        # The beginner holds the lock: one who wanted to roll back would be refused it.
        assert roll_back_dead_writers(table.table, hasty) == []

    hasty = write_options({"hoodie.write.lock.wait_time_ms": "1"})
    storage = WatchedStorage(table.location, before=pass_by, after=pass_by)
    beginner = table.writer("beginner", storage=storage)

    beginner.upsert({"id": 1, "city": "Oslo"})
    committing.append(True)
    beginner.wins()

    assert len(calls) > 20
    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_a4_whatever_step_of_a_beginning_dies_nothing_of_it_stays() -> None:
    start, died = made(COW, []), 0
    for moment in MOMENTS:
        for die_at in range(1, 30):
            clock = StillClock(start.now_ms)
            storage = FaultyStorage(clock, start.files, die_at=die_at, moment=moment)
            content = HeartbeatContent(OPTIONS, "dead", "upsert", None)
            try:
                transaction.begin(opened(storage, clock, "dead").table, OPTIONS, content)
                break
            except Crash:
                died += 1
            left = _after_the_next_writer(State(storage.files, clock.now_ms() + DEAD_AFTER_MS))
            assert list(Timeline.load(left).pending()) == []
            assert left.list_tree(HEARTBEATS.path) == []
    assert died > 10


def _after_the_next_writer(state: State) -> MemoryStorage:
    clock = StillClock(state.now_ms)
    storage = MemoryStorage(clock, state.files)
    UPSERT.run(opened(storage, clock, "next"), COW.options)
    return storage


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Europe/Berlin", "America/New_York"])
def test_a5_times_are_ordered_through_a_change_of_summer_time(
    tables: ScenarioTables, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """In Berlin the hour from 2 to 3 comes twice; New York is behind UTC, Tokyo before it."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        before_change_ms = 1_761_436_800_000  # 2025-10-26 00:00 UTC, an hour before Berlin's.
        clock = ManualClock(before_change_ms)
        table = tables(clock=clock)
        for number in range(5):
            clock.advance(HOUR_MS // 2)
            table.writer("w").upsert_and_commit({"id": 1, "city": f"city {number}"})
    finally:
        monkeypatch.undo()
        time.tzset()

    instants = table.instants()
    assert [one.requested_at for one in instants[1:]] == [
        format_instant(before_change_ms + number * HOUR_MS // 2) for number in range(1, 6)
    ]
    times = [time for one in instants for time in (one.requested_at, one.completed_at or "")]
    assert times == sorted(set(times))


@pytest.mark.parametrize("state", ["requested", "inflight"])
@pytest.mark.parametrize("action", ["rollback", "clean", "restore", "compaction", "clustering"])
def test_a8_empty_plan_of_any_service_is_out_of_the_way_within_one_run(
    tables: ScenarioTables, action: str, state: str
) -> None:
    table = tables(table_type="MERGE_ON_READ", options=ONE_BUCKET)
    goal = table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})
    empty = next_instant(table.clock, table.table.timeline().last_time)
    table.storage.put(f"{TIMELINE}/{empty}.{action}.requested", b"")
    if state == "inflight":
        table.storage.put(f"{TIMELINE}/{empty}.{action}.inflight", b"")

    if action == "restore":
        run(table.table, "restore", instant=goal.instant)
    table.writer("next").upsert_and_commit({"id": 2, "city": "Rome"})
    if action in ("clean", "compaction"):
        run(table.table, action)
    if action == "clustering":
        sort = {"hoodie.clustering.plan.strategy.sort.columns": "city"}
        run(table.table, action, **sort)

    assert [row["id"] for row in table.rows()] == [1, 2]
    assert list(table.table.timeline().pending()) == []
    run(table.table, "archive", min_commits="1", max_commits="1")


def test_a10_archived_instants_leave_the_timeline_in_ascending_order(
    tables: ScenarioTables,
) -> None:
    table, removed = tables(options=ONE_BUCKET), []
    for number in range(6):
        table.writer("w").upsert_and_commit({"id": 1, "city": f"city {number}"})
    before = [one.requested_at for one in table.instants()]

    def note(call: str, path: str) -> None:
        if call == "delete" and path.startswith(f"{TIMELINE}/") and "_" in path:
            removed.append(path.rpartition("/")[2].partition("_")[0])

    storage = WatchedStorage(table.location, before=note)
    run(open_table(table.location, storage=storage).table, "archive", **LIMITS)

    assert removed == before[:-2]


def test_a13_compaction_after_archiving_takes_the_logs_of_archived_commits(
    tables: ScenarioTables,
) -> None:
    table = tables(table_type="MERGE_ON_READ", options=ONE_BUCKET)
    for number in range(6):
        writer = table.writer("w", mode="non-blocking")
        writer.upsert_and_commit({"id": number, "city": f"city {number}"})
    before, logs = table.rows(), set(table.data_files())
    run(table.table, "archive", uncompacted_logs="true", **LIMITS)

    proposal = propose(table.table, table.table.timeline(), parse_compaction_settings({}))
    outcome = run(table.table, "compaction")

    assert {path for one in proposal.chosen for path in one.slice.log_files} == logs
    assert outcome.figures["log_files"] == 6
    assert table.rows() == before


def test_a13_log_whose_completion_nobody_knows_is_an_error_not_a_later_slice(
    tables: ScenarioTables,
) -> None:
    table = tables(table_type="MERGE_ON_READ", options=ONE_BUCKET)
    for number in range(6):
        table.writer("w", mode="non-blocking").upsert_and_commit({"id": number, "city": "x"})
    run(table.table, "archive", uncompacted_logs="true", **LIMITS)
    [group] = table.lakehouse.file_groups()
    unknown = LogFileName(group.file_id, "20200101000000000", 1, "0-0-0").text
    table.storage.put(unknown, b"log")
    table.excuse_referee("nobody knows whether the planted log counts")

    settings = parse_compaction_settings({})
    assert unknown not in str(propose(table.table, table.table.timeline(), settings))
    table.storage.delete(ARCHIVED_WRITES.path)  # Without the note nothing tells.
    with pytest.raises(HistoryLost, match="20200101000000000"):
        propose(table.table, table.table.timeline(), settings)
    table.storage.delete(unknown)


@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
def test_a14_window_from_before_the_active_timeline_is_whole_or_refused(
    tables: ScenarioTables, mode: str
) -> None:
    kind = "COPY_ON_WRITE" if mode == "optimistic" else "MERGE_ON_READ"
    table = tables(table_type=kind, options=ONE_BUCKET)
    commits = [
        table.writer("w", mode=mode).upsert_and_commit({"id": number, "city": "x"})
        for number in range(6)
    ]
    run(table.table, "archive", uncompacted_logs="true", **LIMITS)
    table.excuse_referee("hudi-rs does not see logs of archived commits")
    first = table.instants()[0].requested_at
    lake = open_table(table.location)

    for number, commit in enumerate(commits[:-1]):
        assert commit.instant < first or number >= 4
        for query in ("incremental", "cdc"):
            window = lake.read(query=query, since=commit.completed_at)
            assert window.num_rows == 5 - number

    run(table.table, "clean", policy="KEEP_LATEST_FILE_VERSIONS", versions="1")
    if kind == "COPY_ON_WRITE":  # Changes need the versions between, which are gone.
        with pytest.raises(SnapshotExpired):
            lake.read(query="cdc", since=commits[0].completed_at)
        with pytest.raises(SnapshotExpired):
            lake.read(since=commits[0].completed_at, until=commits[2].completed_at)


def test_a6_consecutive_windows_deliver_each_commit_once_in_any_order_of_completion(
    tables: ScenarioTables,
) -> None:
    """Eight writers begin in order and complete in another; a reader looks after each."""
    table = tables(table_type="MERGE_ON_READ")
    writers = [
        table.writer(f"w{number}", mode="non-blocking").upsert({"id": number, "city": "x"})
        for number in range(8)
    ]
    order = random.Random(6).sample(range(8), 8)
    completed = [writers[number].wins().completed_at for number in order]
    lake = open_table(table.location)

    since = [lake.read(until=completed[0], since="0" * 17)]
    since += [lake.read(since=a, until=b) for a, b in pairwise(completed)]

    assert [rows.column("id").to_pylist() for rows in since] == [[number] for number in order]
