"""Archiving: the table is the same before, during and after; what somebody needs stays active."""

from __future__ import annotations

import itertools

import pytest

from tests.support.clocks import ManualClock
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.table_services import plan, run
from tests.support.watched_storage import WatchedStorage
from workers.errors import InvalidInput
from workers.lakehouse import open_table
from workers.timeline import decisions
from workers.timeline.archive import list_archived_instants
from workers.timeline.instant import Action

ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}
LIMITS = {"min_commits": "2", "max_commits": "3"}


@pytest.fixture
def one_bucket(tables: ScenarioTables) -> ScenarioTable:
    return tables(options=ONE_BUCKET)


def commits(table: ScenarioTable, number: int, *, mode: str = "optimistic") -> None:
    writer = table.writer("ingest", mode=mode)
    for count in range(number):
        writer.upsert_and_commit({"id": count % 3, "city": f"city {count}"})


def archived(table: ScenarioTable) -> list[str]:
    return [one.instant.requested_at for one in list_archived_instants(table.storage)]


def test_oldest_commits_move_to_the_history_and_rows_stay(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 6)
    before, times = one_bucket.rows(), [one.requested_at for one in one_bucket.instants()]

    outcome = run(one_bucket.table, "archive", **LIMITS)

    assert outcome.figures["instants"] == 5
    assert [one.requested_at for one in one_bucket.instants()] == times[-2:]
    assert archived(one_bucket) == times[:-2]
    assert one_bucket.rows() == before
    assert decisions.list_decided_instants(one_bucket.storage) == times[-2:]


def test_nothing_is_archived_below_the_upper_limit(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 2)

    assert run(one_bucket.table, "archive", **LIMITS).summary == "nothing to archive"
    assert plan(one_bucket.table, "archive").is_empty


def test_metadata_and_plan_of_archived_instants_can_be_read(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 4)
    run(one_bucket.table, "clean", commits="1")
    commits(one_bucket, 4)
    run(one_bucket.table, "clean", commits="1")
    files = {
        one.requested_at: one_bucket.storage.read(one_bucket.table.layout.path(one))
        for one in one_bucket.instants()
    }

    run(one_bucket.table, "archive", **LIMITS)

    kept = list_archived_instants(one_bucket.storage, with_content=True)
    assert all(one.metadata == files[one.instant.requested_at] for one in kept)
    planned = {one.instant.action for one in kept if one.plan}
    assert planned == {Action.CLEAN}


def test_a13_log_of_an_archived_commit_stays_in_its_slice(tables: ScenarioTables) -> None:
    table = tables(table_type="MERGE_ON_READ", options=ONE_BUCKET)
    commits(table, 6, mode="non-blocking")
    before = table.lakehouse.file_groups()

    run(table.table, "archive", uncompacted_logs="true", **LIMITS)

    assert table.lakehouse.file_groups() == before
    assert len(before[0].log_files) == 6
    assert len(table.instants()) == 2
    table.excuse_referee("hudi-rs does not see logs of archived commits")


def test_log_that_is_not_compacted_keeps_its_commit_active(tables: ScenarioTables) -> None:
    """hudi-rs loses the rows of a log whose commit is archived."""
    table = tables(table_type="MERGE_ON_READ", options=ONE_BUCKET)
    commits(table, 3, mode="non-blocking")
    run(table.table, "compaction", **{"hoodie.compact.inline.max.delta.commits": "1"})
    commits(table, 4, mode="non-blocking")

    outcome = plan(table.table, "archive", **LIMITS)
    run(table.table, "archive", **LIMITS)

    assert any("a log that is not compacted" in one for one in outcome.warnings)
    assert len(table.table.timeline().list_completed_writes()) == 4


def test_pending_writer_keeps_its_rivals_and_one_commit_before_it(
    one_bucket: ScenarioTable,
) -> None:
    commits(one_bucket, 3)
    slow = one_bucket.writer("slow").upsert({"id": 1, "city": "slow"})
    commits(one_bucket, 4)

    run(one_bucket.table, "archive", **LIMITS)

    assert len(archived(one_bucket)) == 3
    assert one_bucket.instants()[0].requested_at < slow.last_instant
    assert slow.loses().rival == one_bucket.instants()[1].requested_at


def test_writer_is_not_told_that_an_archived_commit_was_rolled_back(
    one_bucket: ScenarioTable,
) -> None:
    commits(one_bucket, 6)
    slow = one_bucket.writer("slow").upsert({"id": 9, "city": "slow"})

    run(one_bucket.table, "archive", min_commits="1", max_commits="1")

    assert len(archived(one_bucket)) == 6
    slow.wins()


def test_savepoint_keeps_its_commit_and_all_after_it(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 2)
    saved = one_bucket.instants()[-1].requested_at
    run(one_bucket.table, "savepoint", instant=saved)
    commits(one_bucket, 5)

    run(one_bucket.table, "archive", **LIMITS)
    assert one_bucket.instants()[0].requested_at == saved
    run(one_bucket.table, "delete_savepoint", instant=saved)
    run(one_bucket.table, "archive", **LIMITS)

    assert len(one_bucket.instants()) == 2


def test_g5_beyond_a_savepoint_its_files_stay_and_all_else_is_cleaned(
    one_bucket: ScenarioTable,
) -> None:
    commits(one_bucket, 2)
    saved = one_bucket.instants()[-1].requested_at
    run(one_bucket.table, "savepoint", instant=saved)
    commits(one_bucket, 6)
    rows = one_bucket.rows()

    run(one_bucket.table, "archive", beyond_savepoint="true", **LIMITS)
    run(one_bucket.table, "clean", commits="1")

    assert one_bucket.rows() == rows
    assert len(one_bucket.data_files()) == 2
    one_bucket.assert_referee_agrees()
    run(one_bucket.table, "delete_savepoint", instant=saved)
    run(one_bucket.table, "clean", commits="1")
    assert len(one_bucket.data_files()) == 1


def test_declared_reader_retention_keeps_commits_active(tables: ScenarioTables) -> None:
    clock = ManualClock()
    table = tables(clock=clock, options=ONE_BUCKET)
    for count in range(6):
        table.writer("ingest").upsert_and_commit({"id": 1, "city": f"city {count}"})
        clock.advance(600_000)

    run(table.table, "archive", min_commits="1", max_commits="1", retention_minutes="35")

    assert len(table.instants()) == 4


def test_gotcha_12_files_of_failed_writes_go_before_the_start_moves(
    one_bucket: ScenarioTable,
) -> None:
    """A foreign engine rolled a write back without its files: once they are older than the active
    timeline, every reader takes them for committed.
    """
    commits(one_bucket, 1)
    dead = one_bucket.writer("dead").upsert({"id": 77, "city": "garbage"})
    dead.dies()
    [garbage] = [path for path in one_bucket.data_files() if dead.last_instant in path]
    for name in (f"{dead.last_instant}.commit.requested", f"{dead.last_instant}.inflight"):
        one_bucket.storage.delete(f".hoodie/timeline/{name}")
    commits(one_bucket, 5)
    rows = one_bucket.rows()

    run(one_bucket.table, "archive", **LIMITS)

    assert garbage not in one_bucket.data_files()
    assert one_bucket.rows() == rows
    one_bucket.assert_referee_agrees()


def test_dead_writer_is_rolled_back_before_the_start_moves(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 1)
    dead = one_bucket.writer("dead").upsert({"id": 77, "city": "garbage"})
    dead.dies()
    for count in range(5):  # Writers that leave the dead one alone: it died between.
        one_bucket.writer(f"w{count}").upsert_and_commit({"id": count, "city": "x"})

    run(one_bucket.table, "archive", **LIMITS)

    assert [path for path in one_bucket.data_files() if dead.last_instant in path] == []
    assert one_bucket.orphan_files() == []


@pytest.mark.parametrize("order", list(itertools.permutations(["forget", "archive", "clean"])))
def test_g3_rows_are_the_same_in_any_order_of_services(
    tables: ScenarioTables, order: tuple[str, ...]
) -> None:
    table = tables(options=ONE_BUCKET)
    commits(table, 2)
    saved = table.instants()[-1].requested_at
    run(table.table, "savepoint", instant=saved)
    batch = table.batch([{"id": 1, "city": "all there is"}])
    table.lakehouse.write(
        batch, "insert_overwrite_table", options={"hoodie.write.markers.type": "direct"}
    )
    commits(table, 4)
    rows = table.rows()
    services = {
        "forget": lambda: run(table.table, "delete_savepoint", instant=saved),
        "archive": lambda: run(table.table, "archive", beyond_savepoint="true", **LIMITS),
        "clean": lambda: run(table.table, "clean", commits="1"),
    }

    for name in order:
        services[name]()
        assert table.rows() == rows
        table.assert_referee_agrees()


def test_a10_a_view_built_at_any_moment_of_archiving_is_the_same(
    tables: ScenarioTables,
) -> None:
    table = tables(table_type="MERGE_ON_READ", options=ONE_BUCKET)
    commits(table, 6, mode="non-blocking")
    before, seen = (table.rows(), table.lakehouse.file_groups()), []

    def look() -> None:
        now = open_table(table.location)
        seen.append((table.rows(), now.file_groups()))

    def look_when_changed(call: str, path: str) -> None:
        if call in ("put", "put_if_absent", "delete", "replace_if_match"):
            look()

    storage = WatchedStorage(table.location, before=look_when_changed)
    archiver = open_table(table.location, storage=storage).table
    run(archiver, "archive", uncompacted_logs="true", **LIMITS)
    look()
    table.excuse_referee("hudi-rs does not see logs of archived commits")

    assert len(seen) > 20
    assert all(one == before for one in seen)


def test_a11_two_archivers_at_once_archive_each_instant_once(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 6)
    times = [one.requested_at for one in one_bucket.instants()]
    other = open_table(one_bucket.location).table
    plan(other, "archive", **LIMITS)

    run(one_bucket.table, "archive", **LIMITS)
    run(other, "archive", min_commits="1", max_commits="1")

    assert archived(one_bucket) == times[:-1]


def test_instant_that_comes_back_from_the_dead_is_removed_again(
    one_bucket: ScenarioTable,
) -> None:
    """A sleeper published an archived instant again: the start must not move back."""
    commits(one_bucket, 5)
    first = one_bucket.instants()[1]
    path = one_bucket.table.layout.path(first)
    content = one_bucket.storage.read(path)
    run(one_bucket.table, "archive", **LIMITS)
    one_bucket.storage.put(path, content)

    commits(one_bucket, 1)

    assert first not in one_bucket.instants()


def test_wrong_limits_are_refused(table: ScenarioTable) -> None:
    with pytest.raises(InvalidInput):
        plan(table.table, "archive", min_commits="5", max_commits="2")
    with pytest.raises(InvalidInput):
        plan(table.table, "archive", max_commits="many")
