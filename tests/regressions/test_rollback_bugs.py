"""Bugs of other engines' rollbacks (group B of docs/regressions.md), each as its script says."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.crash.harness import COW, DEAD_AFTER_MS, MOR, Kind, State, made, rows_of
from tests.crash.operations import UPSERT
from tests.support.crash_ports import StillClock, still_ports
from tests.support.fixtures import MarkerServerAddress
from tests.support.memory_storage import Crash, FaultyStorage, MemoryStorage
from tests.support.scenario_table import (
    READINGS,
    Row,
    ScenarioTable,
    ScenarioTables,
)
from tests.support.table_services import run
from tests.support.watched_storage import Died, WatchedStorage
from workers.errors import RollbackRefused, SnapshotChanged, SnapshotExpired
from workers.lakehouse import open_table
from workers.markers.marker import MARKERS_TYPE, markers_directory
from workers.markers.store import delete_markers, read_names
from workers.options.write_options import write_options
from workers.read.undisturbed import LOOKS_MAX
from workers.recovery.failed_writes import delete_late_files, roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_layout import DECISIONS
from workers.timeline.instant import Action

OPTIONS = write_options({"hoodie.write.markers.type": "direct"})
HASTY = {"hoodie.write.lock.wait_time_ms": "1"}
ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}
BY_VALUE = {"hoodie.clustering.plan.strategy.sort.columns": "value"}


def reading(key: str, ts: int, place: str = "oslo") -> Row:
    return {"id": key, "place": place, "ts": ts, "value": ts, "note": ""}


def test_b2_writer_that_completes_at_any_moment_of_a_cleaners_look_is_never_rolled_back(
    table: ScenarioTable,
) -> None:
    """Its heartbeat goes between the cleaner's reading of heartbeats and of the timeline."""
    for moment in itertools.count():
        quick = table.writer("quick", options=HASTY).upsert({"id": 1, "city": f"city {moment}"})
        completing = _Nth(moment, quick.wins)
        looking = open_table(
            table.location, storage=WatchedStorage(table.location, before=completing)
        )

        assert roll_back_dead_writers(looking.table, OPTIONS) == []

        if completing.calls <= moment:  # The look has no such moment.
            quick.wins()
            break

    assert moment > 4
    assert Action.ROLLBACK not in {one.action for one in table.instants()}
    assert table.rows() == [{"id": 1, "city": f"city {moment}"}]


@dataclass
class _Nth:
    """Does `effect` at the n-th call, counted from 0."""

    number: int
    effect: Callable[[], object]
    calls: int = 0

    def __call__(self, call: str, path: str) -> None:
        self.calls += 1
        if self.calls == self.number + 1:
            self.effect()


@pytest.mark.parametrize(("moment", "file"), [("before", 2), ("after", 0), ("after", 4)])
def test_b4_no_file_of_a_writer_killed_with_server_markers_survives_rollback_and_archiving(
    tables: ScenarioTables,
    marker_server: MarkerServerAddress,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    file: int,
) -> None:
    monkeypatch.setenv("SLUICE_MARKER_SECRET", marker_server.secret)
    options = {
        "hoodie.write.markers.type": "timeline_server_based",
        "sluice.marker.url": marker_server.url,
    }
    table = tables(schema=READINGS, partition_by=["place"], options=ONE_BUCKET)
    table.writer("first").upsert_and_commit(reading("a", 0))
    files = itertools.count()

    def kill(call: str, path: str) -> None:
        if call == "create_data" and path.endswith(".parquet") and next(files) == file:
            raise Died

    storage = WatchedStorage(table.location, **{moment: kill})
    dead = table.writer("dead", options=options, storage=storage)
    with pytest.raises(Died):
        dead.upsert(*(reading(f"k{n}", 1, place=f"p{n}") for n in range(6)))
    assert read_names(table.storage, dead.last_instant).by_file
    dead.dies()
    for number in range(5):
        table.writer("next").upsert_and_commit(reading("a", number))

    run(table.table, "archive", min_commits="2", max_commits="3")

    assert (table.instants()[0].requested_at) > dead.last_instant
    assert [path for path in table.data_files() if dead.last_instant in path] == []


def test_b5_rollback_ends_whatever_subset_of_marker_files_is_there(tables: ScenarioTables) -> None:
    table = tables(schema=READINGS, partition_by=["place"], options=ONE_BUCKET)
    table.writer("first").upsert_and_commit(reading("a", 0))
    before = table.data_files()
    for present in _subsets(["MARKERS.type", "MARKERS0", "MARKERS1"]):
        dead = table.writer("dead").upsert(*(reading(f"k{n}", 1, place=f"p{n}") for n in range(4)))
        names = read_names(table.storage, dead.last_instant).direct
        delete_markers(table.storage, dead.last_instant)
        contents = {
            "MARKERS.type": MARKERS_TYPE.encode(),
            "MARKERS0": "".join(f"{name}\n" for name in names[:2]).encode(),
            "MARKERS1": "".join(f"{name}\n" for name in names[2:]).encode(),
        }
        for name in present:
            path = f"{markers_directory(dead.last_instant)}/{name}"
            table.storage.put(path, contents[name])
        dead.dies()

        assert len(roll_back_dead_writers(table.table, OPTIONS)) == 1

        if present == ("MARKERS.type", "MARKERS0"):
            # Nothing tells that there was another one: what it named goes when the next one begins.
            delete_late_files(table.table, FileSystemView.load(table.table))
        assert table.data_files() == before, present
        assert table.leftovers() == []


def _subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    sizes = range(len(names) + 1)
    return [one for size in sizes for one in itertools.combinations(names, size)]


@pytest.mark.parametrize("kind", [COW, MOR], ids=lambda kind: kind.name)
def test_b6_rollback_that_dies_five_times_ends_as_one_that_lives(kind: Kind) -> None:
    start = made(kind, [])
    crashed = _crashed_upsert(kind, start)
    deaths = 0
    for seed in range(12):
        chance, state = random.Random(seed), crashed
        for _ in range(5):
            clock = StillClock(state.now_ms)
            die_at = chance.randrange(1, 12)
            storage = FaultyStorage(clock, state.files, die_at=die_at, moment="after")
            try:
                roll_back_dead_writers(_opened(storage, clock), OPTIONS)
            except Crash:
                deaths += 1
            state = State(storage.files, clock.now_ms() + DEAD_AFTER_MS)
        clock = StillClock(state.now_ms)
        end = MemoryStorage(clock, state.files)
        table = _opened(end, clock)
        roll_back_dead_writers(table, OPTIONS)

        rollbacks = [
            one for one in table.timeline().iterate_completed() if one.action == "rollback"
        ]
        assert len(rollbacks) == 1, f"seed={seed}"
        assert list(table.timeline().pending()) == []
        assert _data(end) == _data(MemoryStorage(clock, start.files))
        assert rows_of(State(end.files, clock.now_ms())) == rows_of(start)
    assert deaths > 30


def _crashed_upsert(kind: Kind, start: State) -> State:
    """Its first data file is whole, nothing after it happened."""
    clock = StillClock(start.now_ms)
    for die_at in itertools.count(1):
        storage = FaultyStorage(clock, start.files, die_at=die_at, moment="after")
        ports = still_ports(clock, prefix="x")
        with pytest.raises(Crash):
            UPSERT.run(open_table(storage.location, ports=ports, storage=storage), kind.options)
        if len(_data(storage)) > len(_data(MemoryStorage(clock, start.files))):
            return State(storage.files, clock.now_ms() + DEAD_AFTER_MS)
    raise AssertionError("unreachable")


def _opened(storage: MemoryStorage, clock: StillClock) -> Table:
    ports = still_ports(clock, prefix=f"r{clock.now_ms()}")
    return open_table(storage.location, ports=ports, storage=storage).table


def _data(storage: MemoryStorage) -> set[str]:
    return {path for path in storage.files if path.endswith(".parquet") or ".log." in path}


@pytest.mark.parametrize(
    "order",
    [
        one
        for one in itertools.permutations(["plan", "die", "run"])
        if one.index("plan") < one.index("run")
    ],
    ids="-".join,
)
def test_b8_log_of_a_writer_that_dies_beside_a_compaction_is_never_in_its_base(
    tables: ScenarioTables, order: tuple[str, ...]
) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"], options=ONE_BUCKET)
    writer = table.writer("living", mode="non-blocking")
    writer.upsert_and_commit(reading("a", 1))
    dead = table.writer("dead", mode="non-blocking").upsert(reading("a", 9), reading("z", 9))
    writer.upsert_and_commit(reading("b", 2))
    before = table.rows()

    for step in order:
        if step == "plan":
            run(table.table, "compaction", schedule_only="true")
        elif step == "run":
            run(table.table, "compaction")
        else:
            dead.dies()
            roll_back_dead_writers(table.table, OPTIONS)
        assert table.rows() == before

    [group] = table.lakehouse.file_groups()
    assert group.base_file is not None
    assert group.log_files == ()
    assert table.orphan_files() == []


def test_b11_older_write_goes_past_a_clustering_only_while_it_is_pending(
    tables: ScenarioTables,
) -> None:
    table = tables(schema=READINGS, ordering=["ts"], options=ONE_BUCKET)
    first = table.writer("first").upsert_and_commit(reading("b", 2), reading("a", 1))
    pending = table.writer("pending").upsert(reading("c", 3))
    before = table.rows()
    clustered = run(table.table, "clustering", **BY_VALUE).instant
    request = RollbackRequest(pending.last_instant, by="admin", reason="test", is_forced=True)

    rollback(table.table, request, OPTIONS)

    pending.is_told_rolled_back()
    assert table.rows() == before
    assert clustered in [one.requested_at for one in table.instants()]
    with pytest.raises(RollbackRefused, match=f"first: {clustered} .a replacement."):
        rollback(table.table, RollbackRequest(first.instant, by="admin", reason="test"), OPTIONS)


def test_b12_rollback_and_clean_each_find_their_files_deleted_by_the_other(
    table: ScenarioTable,
) -> None:
    def was_faster(call: str, path: str) -> None:
        if call == "delete" and path.endswith(".parquet"):
            (table.location / path).unlink()
            taken.append(path)

    taken: list[str] = []
    for number in range(4):
        table.writer("w").upsert_and_commit({"id": 1, "city": f"city {number}"})
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})
    storage = WatchedStorage(table.location, before=was_faster)
    second = open_table(table.location, storage=storage).table

    rollback(second, RollbackRequest(wrong.instant, by="admin", reason="test"), OPTIONS)
    run(second, "clean", commits="1")

    assert len(taken) == 4
    assert table.rows() == [{"id": 1, "city": "city 3"}]
    assert list(table.table.timeline().pending()) == []
    assert table.leftovers() == []


@pytest.mark.parametrize("disturbed", [LOOKS_MAX - 1, LOOKS_MAX])
def test_b16_reader_under_whom_commits_vanish_looks_three_times_and_then_says_so(
    table: ScenarioTable, disturbed: int
) -> None:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    wrong = [table.writer("w").upsert_and_commit({"id": 1, "city": "Rome"}).instant]
    looks: list[str] = []

    def vanish(call: str, path: str) -> None:
        if call != "open_data" or len(looks) == disturbed:
            return
        looks.append(path)
        rollback(table.table, RollbackRequest(wrong.pop(), by="admin", reason="test"), OPTIONS)
        wrong.append(table.writer("w").upsert_and_commit({"id": 1, "city": "Rome"}).instant)

    reader = open_table(table.location, storage=WatchedStorage(table.location, before=vanish))

    if disturbed < LOOKS_MAX:
        assert reader.read().to_pylist() == [{"id": 1, "city": "Rome"}]
    else:
        with pytest.raises((SnapshotChanged, SnapshotExpired)):
            reader.read()
    assert len(looks) == disturbed


def test_b13_restore_that_died_after_its_decision_is_done_when_it_is_run_again(
    table: ScenarioTable,
) -> None:
    goal = table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})
    table.writer("w").upsert_and_commit({"id": 1, "city": "Rome"})
    at_publishing = _Published(".restore")
    dying = open_table(table.location, storage=WatchedStorage(table.location, before=at_publishing))
    with pytest.raises(Died):
        run(dying.table, "restore", instant=goal.instant)
    assert [one.action for one in table.table.timeline().pending()] == [Action.RESTORE]

    run(table.table, "restore", instant=goal.instant)

    assert list(table.table.timeline().pending()) == []
    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    table.writer("w").upsert_and_commit({"id": 1, "city": "Lima"})


@dataclass(frozen=True)
class _Published:
    """Dies before the completed file of this action is there."""

    suffix: str

    def __call__(self, call: str, path: str) -> None:
        is_completed = "_" in path.rpartition("/")[2]
        if call == "put_if_absent" and is_completed and path.endswith(self.suffix):
            raise Died


def test_rb5_data_goes_before_the_instant_and_markers_after_it(table: ScenarioTable) -> None:
    """Bug B3, and what a crash between any two of these leaves: something that says what to do."""
    steps: list[str] = []

    def note(call: str, path: str) -> None:
        if dead.last_instant in path and call in ("delete", "delete_tree"):
            kinds = {".hoodie/timeline": "instant", ".hoodie/.temp": "markers"}
            kinds[".hoodie/.heartbeat"] = "heartbeat"
            steps.append(kinds.get(path.rpartition("/")[0], "data"))
        if call == "put_if_absent" and path.endswith(".rollback"):
            steps.append("completed rollback")
        if call == "put_if_absent" and path.startswith(f"{DECISIONS.path}/"):
            steps.append("decision")

    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"}, {"id": 2, "city": "Oslo"})
    dead.dies()
    looking = open_table(table.location, storage=WatchedStorage(table.location, before=note))

    roll_back_dead_writers(looking.table, OPTIONS)

    assert list(dict.fromkeys(steps)) == [
        "decision",
        "data",
        "completed rollback",
        "instant",
        "markers",
        "heartbeat",
    ]
