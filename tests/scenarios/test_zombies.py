"""Writers as real processes that freeze past their lease, or are killed, at every named point.

SIGSTOP stops all threads: no lease is renewed and no heart beats. Whatever happens meanwhile, of
commit and rollback exactly one holds, and what a writer was told stays true.

The same rules are tested on a manual clock in test_paused_writers.py.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from bench.support.writer_process import WriterProcess
from tests.support.expiry import await_expiry
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from workers.clock import InstantTime
from workers.concurrency.heartbeat import read_heartbeats
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(900)]

SHORT = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
    "hoodie.client.heartbeat.interval_in_ms": "5000",
    "hoodie.client.heartbeat.tolerable.misses": "2",
}
OPTIONS = write_options(SHORT)
WRITE_POINTS = (
    "after_start",
    "after_data",
    "before_validate",
    "before_publish",
    "after_decision",
    "after_publish",
)
ROLLBACK_POINTS = ("rollback_after_decision", "rollback_after_delete")
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")


class StartWriter(Protocol):
    def __call__(self, name: str, row: Row, point: str) -> WriterProcess: ...


def a_lake(tables: ScenarioTables, kind: str) -> ScenarioTable:
    table = tables(table_type=kind, schema=READINGS, ordering=["ts"], write_options=SHORT)
    table.writer("first").upsert_and_commit(reading("a", 1), reading("b", 1))
    return table


@pytest.fixture
def lake(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    return a_lake(tables, getattr(request, "param", KINDS[0]))


both_kinds = pytest.mark.parametrize("lake", KINDS, indirect=True)


@pytest.fixture
def start(lake: ScenarioTable) -> Iterator[StartWriter]:
    """Starts a writer that will pause at a point."""
    processes: list[WriterProcess] = []

    def started(name: str, row: Row, point: str) -> WriterProcess:
        release = str(release_of(lake, name))
        stop = {"point": point, "writer": name, "action": "pause", "release": release}
        process = WriterProcess(lake.location, name, [row], options=SHORT, stop_points=[stop])
        processes.append(process)
        return process

    yield started
    for process in processes:
        process.end()


def release_of(lake: ScenarioTable, name: str) -> Path:
    return lake.location.parent / f"release-{name}"


def reading(key: str, ts: int) -> Row:
    return {"id": key, "place": "x", "ts": ts, "value": ts * 10, "note": f"at {ts}"}


def freeze_at_its_point(lake: ScenarioTable, process: WriterProcess) -> InstantTime:
    """Frozen where its stop point is; the point is released, so that it runs on when thawed."""
    await_at_its_point(lake, process)
    process.freeze()
    release_of(lake, process.name).touch()
    [beat] = [one for one in read_heartbeats(lake.storage) if one.writer == process.name]
    return beat.instant


def await_at_its_point(lake: ScenarioTable, process: WriterProcess) -> None:
    release = release_of(lake, process.name)
    process.await_file(release.with_name(f"{release.name}.reached"))


def assert_exactly_one_holds(
    lake: ScenarioTable, instant: InstantTime, answer: dict[str, Any], was: list[Row]
) -> None:
    decision = decisions.read(lake.storage, instant)
    on_timeline = lake.table.timeline().find(instant)
    if isinstance(decision, CommitDecision):
        assert answer["outcome"] == "Committed"
        assert on_timeline is not None
        assert on_timeline.completed_at == answer["completed_at"] == decision.completed_at
    else:
        assert isinstance(decision, RollbackDecision)
        assert answer["outcome"] == "RolledBack"
        assert on_timeline is None
        assert lake.rows() == was
    assert lake.orphan_files() == []


@pytest.mark.sampled(every=2)
@both_kinds
@pytest.mark.parametrize("point", ["before_publish", "after_decision"])
def test_writer_frozen_while_publishing_and_a_rollback_by_another(
    lake: ScenarioTable, start: StartWriter, point: str
) -> None:
    before = lake.rows()
    zombie = start("zombie", reading("a", 5), point)
    instant = freeze_at_its_point(lake, zombie)
    await_expiry(lake.storage)

    cleaned = roll_back_dead_writers(lake.table, OPTIONS)
    zombie.thaw()
    answer = zombie.outcome()

    assert_exactly_one_holds(lake, instant, answer, before)
    assert answer["outcome"] == ("Committed" if point == "after_decision" else "RolledBack")
    assert [one.target for one in cleaned] == ([] if point == "after_decision" else [instant])
    assert lake.leftovers() == []


def test_two_frozen_writers_are_both_fenced_and_nothing_of_them_stays(
    lake: ScenarioTable, start: StartWriter
) -> None:
    """One freezes in the lock, one beside it; a third rolls both back."""
    before = lake.rows()
    waiting = start("waiting", reading("b", 6), "after_data")
    await_at_its_point(lake, waiting)
    holding = start("holding", reading("a", 5), "before_publish")
    instants = {freeze_at_its_point(lake, holding), freeze_at_its_point(lake, waiting)}
    await_expiry(lake.storage)

    cleaned = roll_back_dead_writers(lake.table, OPTIONS)
    waiting.thaw()
    holding.thaw()

    assert {one.target for one in cleaned} == instants
    assert {waiting.outcome()["outcome"], holding.outcome()["outcome"]} == {"RolledBack"}
    assert lake.rows() == before
    assert lake.orphan_files() == []
    assert [one.action for one in lake.instants()].count(Action.ROLLBACK) == 2


@pytest.mark.sampled(every=2)
@both_kinds
def test_frozen_lock_holder_whose_rival_took_the_same_file_group_loses(
    lake: ScenarioTable, start: StartWriter
) -> None:
    """Its validation passed long ago; the rival's commit is not overwritten."""
    zombie = start("zombie", reading("a", 5), "before_publish")
    instant = freeze_at_its_point(lake, zombie)
    await_expiry(lake.storage)

    lake.writer("rival").upsert_and_commit(reading("a", 7))
    zombie.thaw()
    answer = zombie.outcome()

    assert answer["outcome"] == "RolledBack"
    assert lake.table.timeline().find(instant) is None
    assert lake.rows() == [reading("a", 7), reading("b", 1)]
    assert lake.orphan_files() == []


def test_frozen_writer_that_had_decided_is_published_by_its_rival_who_then_conflicts_or_builds_on(
    lake: ScenarioTable, start: StartWriter
) -> None:
    zombie = start("zombie", reading("a", 5), "after_decision")
    instant = freeze_at_its_point(lake, zombie)
    await_expiry(lake.storage)

    lake.writer("next").upsert_and_commit(reading("a", 7))
    zombie.thaw()
    answer = zombie.outcome()

    assert answer["outcome"] == "Committed"
    completed = lake.table.timeline().find(instant)
    assert completed is not None
    assert completed.completed_at == answer["completed_at"]
    assert lake.rows() == [reading("a", 7), reading("b", 1)]


def test_frozen_writer_that_had_decided_may_be_undone_by_an_admin_for_good(
    lake: ScenarioTable, start: StartWriter
) -> None:
    before = lake.rows()
    zombie = start("zombie", reading("a", 5), "after_decision")
    instant = freeze_at_its_point(lake, zombie)
    await_expiry(lake.storage)
    request = RollbackRequest(instant, by="admin", reason="test", is_forced=True)

    rollback(lake.table, request, OPTIONS)
    zombie.thaw()
    zombie.outcome()

    assert lake.table.timeline().find(instant) is None
    assert lake.rows() == before
    assert lake.orphan_files() == []


def test_writer_frozen_before_it_had_data_is_told_at_its_next_marker(
    lake: ScenarioTable, start: StartWriter
) -> None:
    before = lake.rows()
    zombie = start("zombie", reading("a", 5), "after_start")
    freeze_at_its_point(lake, zombie)
    await_expiry(lake.storage)

    roll_back_dead_writers(lake.table, OPTIONS)
    zombie.thaw()

    with pytest.raises(AssertionError, match="InstantRolledBack"):
        zombie.outcome()
    assert lake.rows() == before
    assert lake.orphan_files() == []


@pytest.fixture(scope="module", params=KINDS)
def killed(request: pytest.FixtureRequest, tables_root: Path) -> dict[str, ScenarioTable]:
    """One table per named point, whose writer was killed there; all at once to save time.

    A writer who is to die in a rollback finds a dead one, after its own commit.
    """
    tables = ScenarioTables(Path(tempfile.mkdtemp(dir=tables_root)))
    lakes, processes = {}, []
    for point in (*WRITE_POINTS, *ROLLBACK_POINTS):
        lake = lakes[point] = a_lake(tables, request.param)
        if point in ROLLBACK_POINTS:
            lake.writer("dead").upsert(reading("b", 9)).dies()
        stop = {"point": point, "action": "kill"}
        processes.append(
            WriterProcess(
                lake.location, "killed", [reading("a", 5)], options=SHORT, stop_points=[stop]
            )
        )
    try:
        for process in processes:
            process.await_death()
    finally:
        for process in processes:
            process.end()
    for lake in lakes.values():
        await_expiry(lake.storage)
    return lakes


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("point", [*WRITE_POINTS, *ROLLBACK_POINTS])
def test_writer_killed_at_a_named_point_leaves_the_old_or_the_new_table(
    killed: dict[str, ScenarioTable], point: str
) -> None:
    lake = killed[point]
    old, new = [reading("a", 1), reading("b", 1)], [reading("a", 5), reading("b", 1)]
    is_committed = point in ("after_publish", *ROLLBACK_POINTS)
    assert lake.rows() == (new if is_committed else old)

    lake.writer("next").upsert_and_commit(reading("c", 1))

    kept = new if is_committed or point == "after_decision" else old
    assert lake.rows() == [*kept, reading("c", 1)]
    assert lake.orphan_files() == []
    assert lake.leftovers() == []
    lake.judge()
