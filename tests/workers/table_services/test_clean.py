"""Cleaning: what each policy keeps, what it never touches, and what a crash leaves to finish."""

from __future__ import annotations

import itertools

import pytest

from tests.support.clocks import ManualClock
from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from tests.support.table_services import plan, run
from workers.errors import InvalidInput, PlanChanged, ServiceRefused
from workers.options.write_options import write_options
from workers.table_services.execution import schedule
from workers.timeline import transitions
from workers.timeline.clean_metadata import CleanPlanFile, read_clean_metadata
from workers.timeline.instant import Action, Instant, State
from workers.timeline.pending_plans import pending_plan_files


def commits(table: ScenarioTable, number: int) -> None:
    """So many commits, each rewriting the one file group."""
    writer = table.writer("ingest")
    for count in range(number):
        writer.upsert_and_commit({"id": 1, "city": f"city {count}"})


@pytest.fixture
def one_bucket(tables: ScenarioTables) -> ScenarioTable:
    return tables(options={"hoodie.bucket.index.num.buckets": "1"})


def test_last_commits_keep_their_files_and_older_versions_go(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 6)
    before = one_bucket.data_files()

    outcome = run(one_bucket.table, "clean", commits="3")

    assert outcome.figures == {"files": 3}
    assert one_bucket.data_files() == before[3:]
    assert one_bucket.rows() == [{"id": 1, "city": "city 5"}]
    third = one_bucket.table.timeline().list_completed_writes()[-3]
    assert one_bucket.lakehouse.read(as_of=third.completed_at).to_pylist()[0]["city"] == "city 3"


def test_clean_is_recorded_with_the_earliest_commit_that_it_retains(
    one_bucket: ScenarioTable,
) -> None:
    commits(one_bucket, 4)
    gone = one_bucket.data_files()[:2]

    run(one_bucket.table, "clean", commits="2")

    [clean] = [one for one in one_bucket.instants() if one.action is Action.CLEAN]
    content = one_bucket.storage.read(one_bucket.table.layout.path(clean))
    result = read_clean_metadata(content)
    assert result.earliest_to_retain == one_bucket.instants()[-3].requested_at
    assert [f"{name}" for name in result.deleted_by_partition[""]] == gone


def test_nothing_is_scheduled_when_nothing_may_go(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 3)

    outcome = run(one_bucket.table, "clean")

    assert outcome.instant is None
    assert Action.CLEAN not in {one.action for one in one_bucket.instants()}


def test_file_versions_are_counted_per_file_group(tables: ScenarioTables) -> None:
    table = tables(schema=READINGS, partition_by=["place"])
    writer = table.writer("ingest")
    for count in range(5):
        writer.upsert_and_commit({"id": "a", "place": "p", "value": count})
    writer.upsert_and_commit({"id": "b", "place": "q", "value": 0})

    run(table.table, "clean", policy="KEEP_LATEST_FILE_VERSIONS", versions="2")

    assert len([path for path in table.data_files() if path.startswith("p/")]) == 2
    assert len([path for path in table.data_files() if path.startswith("q/")]) == 1


def test_hours_keep_what_a_snapshot_of_that_age_reads(tables: ScenarioTables) -> None:
    clock = ManualClock()
    table = tables(clock=clock, options={"hoodie.bucket.index.num.buckets": "1"})
    for count in range(4):
        table.writer("ingest").upsert_and_commit({"id": 1, "city": f"city {count}"})
        clock.advance(3_600_000)

    run(table.table, "clean", policy="KEEP_LATEST_BY_HOURS", hours="2")

    # Two hours ago the third commit was a moment from being made: the second was read.
    assert len(table.data_files()) == 3


def test_g1_declared_reader_retention_keeps_more_than_the_policy(tables: ScenarioTables) -> None:
    clock = ManualClock()
    table = tables(clock=clock, options={"hoodie.bucket.index.num.buckets": "1"})
    for count in range(4):
        table.writer("ingest").upsert_and_commit({"id": 1, "city": f"city {count}"})
        clock.advance(600_000)

    assert plan(table.table, "clean", commits="1", retention_minutes="60").is_empty
    run(table.table, "clean", commits="1", retention_minutes="15")

    assert len(table.data_files()) == 2


def test_logs_of_superseded_slices_go_with_their_base(tables: ScenarioTables) -> None:
    table = tables(table_type="MERGE_ON_READ", options={"hoodie.bucket.index.num.buckets": "1"})
    writer = table.writer("ingest", mode="non-blocking")
    for count in range(4):
        writer.upsert_and_commit({"id": 1, "city": f"city {count}"})

    assert plan(table.table, "clean", commits="1").is_empty  # All are the newest slice's.
    assert table.rows() == [{"id": 1, "city": "city 3"}]


def test_pending_writer_keeps_what_it_reads(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 3)
    slow = one_bucket.writer("slow").upsert({"id": 1, "city": "slow"})
    one_bucket.writer("single").begin(one_bucket.batch([{"id": 2, "city": "x"}]).schema).abort()
    files = set(one_bucket.data_files())

    run(one_bucket.table, "clean", commits="1")

    assert len(files - set(one_bucket.data_files())) == 2
    slow.wins()
    assert one_bucket.rows() == [{"id": 1, "city": "slow"}]


def test_g5_savepointed_files_stay_until_the_savepoint_goes(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 2)
    saved = one_bucket.instants()[-1]
    run(one_bucket.table, "savepoint", instant=saved.requested_at)
    commits(one_bucket, 4)

    run(one_bucket.table, "clean", commits="1")
    assert len(one_bucket.data_files()) == 2
    assert one_bucket.lakehouse.read(as_of=saved.completed_at).to_pylist()[0]["city"] == "city 1"
    run(one_bucket.table, "delete_savepoint", instant=saved.requested_at)
    run(one_bucket.table, "clean", commits="1")

    assert len(one_bucket.data_files()) == 1


def test_g4_plan_is_durable_first_and_whoever_comes_finishes_it(
    one_bucket: ScenarioTable,
) -> None:
    commits(one_bucket, 5)
    planned = plan(one_bucket.table, "clean", commits="2")
    options = write_options({"hoodie.write.markers.type": "direct"})
    doomed = [item.what for item in planned.items]

    content = CleanPlanFile("KEEP_LATEST_COMMITS", {"": tuple(doomed)})
    schedule(
        one_bucket.table,
        options,
        Action.CLEAN,
        lambda *_: content.encode(one_bucket.storage.location),
    )
    one_bucket.storage.delete(doomed[0])  # As by an executor that died, or by a rollback (B12).
    shown = plan(one_bucket.table, "clean", commits="2")
    assert shown.instant is not None
    assert [item.what for item in shown.items] == doomed[1:]

    outcome = run(one_bucket.table, "clean", commits="5")

    assert outcome.instant == shown.instant
    assert not set(doomed) & set(one_bucket.data_files())
    assert [one.state for one in one_bucket.instants() if one.action is Action.CLEAN] == [
        State.COMPLETED
    ]


def test_a8_empty_clean_plan_goes_and_a_new_one_is_made(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 4)
    empty = Instant(one_bucket.instants()[-1].completed_at or "", Action.CLEAN, State.REQUESTED)
    transitions.start(
        one_bucket.storage,
        transitions.request(
            one_bucket.storage, str(int(empty.requested_at) + 1), Action.CLEAN, b""
        ),
    )

    run(one_bucket.table, "clean", commits="2")

    states = [one.state for one in one_bucket.instants() if one.action is Action.CLEAN]
    assert states == [State.COMPLETED]
    assert len(one_bucket.data_files()) == 2


def test_plan_that_changed_since_it_was_shown_is_refused(one_bucket: ScenarioTable) -> None:
    commits(one_bucket, 4)
    shown = plan(one_bucket.table, "clean", commits="2")
    commits(one_bucket, 1)

    with pytest.raises(PlanChanged):
        run(one_bucket.table, "clean", commits="2", expected_plan_hash=shown.plan_hash)


def test_unknown_policy_and_parameter_are_refused(table: ScenarioTable) -> None:
    with pytest.raises(InvalidInput, match="policy"):
        plan(table.table, "clean", policy="KEEP_NOTHING")
    with pytest.raises(InvalidInput, match="parameter"):
        plan(table.table, "clean", colour="blue")


def test_savepoint_of_a_commit_whose_files_are_gone_is_refused(
    one_bucket: ScenarioTable,
) -> None:
    commits(one_bucket, 4)
    second = one_bucket.table.timeline().list_completed_writes()[-3]
    run(one_bucket.table, "clean", commits="2")

    with pytest.raises(ServiceRefused, match="cleaned away"):
        run(one_bucket.table, "savepoint", instant=second.requested_at)


@pytest.mark.parametrize("order", list(itertools.permutations(["write", "schedule", "clean"])))
def test_g2_files_of_a_pending_compaction_are_never_cleaned(
    tables: ScenarioTables, order: tuple[str, ...]
) -> None:
    table = tables(table_type="MERGE_ON_READ", options={"hoodie.bucket.index.num.buckets": "1"})
    writer = table.writer("ingest", mode="non-blocking")

    def step(name: str) -> None:
        if name == "write":
            writer.upsert_and_commit({"id": 1, "city": "newest"})
        elif name == "schedule":
            run(table.table, "compaction", schedule_only="true")
        else:
            run(table.table, "clean", policy="KEEP_LATEST_FILE_VERSIONS", versions="1")

    for _ in range(2):
        step("write")
        run(table.table, "compaction")
    for name in (*order, *order):
        step(name)
        needed = pending_plan_files(table.storage, table.table.timeline())
        assert all(set(files) <= set(table.data_files()) for files in needed.values())

    run(table.table, "compaction")

    assert table.rows() == [{"id": 1, "city": "newest"}]
