"""Several instants rolled back by one plan: the order, what goes with them, what stops it."""

from __future__ import annotations

import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.table_services import plan, run
from tests.support.watched_storage import Died
from workers.errors import InvalidInput, PlanChanged, ServiceRefused
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table_layout import ROLLBACK_PLANS
from workers.table_services.registry import get_service
from workers.table_services.service import Progress, ServiceOutcome, ServicePlan, ServiceRequest

NAME = "rollback_several"
OPTIONS = write_options({"hoodie.write.markers.type": "direct"})
ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}


@pytest.fixture
def one_bucket(tables: ScenarioTables) -> ScenarioTable:
    return tables(options=ONE_BUCKET)


@pytest.fixture
def logs(tables: ScenarioTables) -> ScenarioTable:
    return tables(table_type="MERGE_ON_READ", options=ONE_BUCKET)


def upsert(table: ScenarioTable, city: str, *, mode: str = "optimistic") -> str:
    writer = table.writer("ingest", mode=mode)
    return writer.upsert_and_commit({"id": 1, "city": city}).instant


def cities(table: ScenarioTable) -> list[str]:
    return [row["city"] for row in table.rows()]


def undone(shown: ServicePlan) -> list[str]:
    return [item.what for item in shown.items if item.effect == "undo"]


def go(
    table: ScenarioTable, shown: ServicePlan, on_progress: Progress | None = None, **parameters: str
) -> ServiceOutcome:
    request = ServiceRequest("ada", "wrong day", parameters, shown.plan_hash)
    return get_service(NAME).run(table.table, request, OPTIONS, on_progress)


def roll_back_first(table: ScenarioTable, instant: str) -> None:
    """As somebody else does it."""
    rollback(table.table, RollbackRequest(instant, by="bob", reason="mine"), OPTIONS)


def test_pending_ones_go_first_and_then_completed_ones_newest_first(
    one_bucket: ScenarioTable,
) -> None:
    upsert(one_bucket, "Oslo")
    second = upsert(one_bucket, "Rome")
    third = upsert(one_bucket, "Lima")
    dead = one_bucket.writer("dead").upsert({"id": 9, "city": "Bonn"})
    dead.dies()
    instants = ", ".join([second, third, dead.last_instant])

    shown = plan(one_bucket.table, NAME, instants=instants)
    before = one_bucket.data_files()
    outcome = go(one_bucket, shown, instants=instants)

    assert undone(shown) == [dead.last_instant, third, second]
    deleted = [item.what for item in shown.items if item.effect == "delete"]
    assert sorted(deleted) == sorted(set(before) - set(one_bucket.data_files()))
    assert "rows: 1" in next(one.detail for one in shown.items if one.what == third)
    assert outcome.figures == {"instants": 3}
    assert cities(one_bucket) == ["Oslo"]
    assert one_bucket.orphan_files() == []
    assert one_bucket.storage.list_files(ROLLBACK_PLANS.path) == []


def test_everything_after_an_instant_goes_and_the_instant_stays(one_bucket: ScenarioTable) -> None:
    goal = upsert(one_bucket, "Oslo")
    second, third = upsert(one_bucket, "Rome"), upsert(one_bucket, "Lima")

    shown = plan(one_bucket.table, NAME, after=goal)
    go(one_bucket, shown, after=goal)

    assert undone(shown) == [third, second]
    assert cities(one_bucket) == ["Oslo"]


def test_newer_write_that_nobody_chose_blocks_and_is_named(one_bucket: ScenarioTable) -> None:
    upsert(one_bucket, "Oslo")
    second, third = upsert(one_bucket, "Rome"), upsert(one_bucket, "Lima")

    shown = plan(one_bucket.table, NAME, instants=second)

    assert shown.blockers == (f"newer writes go first; choose these too: {third}",)
    with pytest.raises(ServiceRefused):
        run(one_bucket.table, NAME, instants=second)
    assert cities(one_bucket) == ["Lima"]


def test_compaction_on_top_goes_as_well_and_alone_it_is_refused(logs: ScenarioTable) -> None:
    upsert(logs, "Oslo", mode="non-blocking")
    second = upsert(logs, "Rome", mode="non-blocking")
    files = logs.data_files()
    compaction = str(run(logs.table, "compaction").instant)
    third = upsert(logs, "Lima", mode="non-blocking")

    alone = plan(logs.table, NAME, instants=f"{compaction},{third}")
    shown = plan(logs.table, NAME, instants=f"{second},{third}")
    go(logs, shown, instants=f"{second},{third}")

    assert "choose the writes that it merged" in alone.blockers[0]
    assert undone(shown) == [third, compaction, second]
    assert any(compaction in one for one in shown.warnings)
    assert cities(logs) == ["Oslo"]
    assert logs.data_files() == files[:1]


def test_pending_compaction_that_reads_the_files_blocks_until_it_is_chosen(
    logs: ScenarioTable,
) -> None:
    upsert(logs, "Oslo", mode="non-blocking")
    second = upsert(logs, "Rome", mode="non-blocking")
    run(logs.table, "compaction", schedule_only="true")
    pending = next(one.requested_at for one in logs.table.timeline().pending())

    blocked = plan(logs.table, NAME, instants=second)
    shown = plan(logs.table, NAME, instants=f"{second},{pending}")
    go(logs, shown, instants=f"{second},{pending}")

    assert f"the pending plan {pending} reads" in blocked.blockers[0]
    assert undone(shown) == [pending, second]
    assert cities(logs) == ["Oslo"]


def test_files_that_a_savepoint_holds_block_with_the_step(one_bucket: ScenarioTable) -> None:
    upsert(one_bucket, "Oslo")
    second, third = upsert(one_bucket, "Rome"), upsert(one_bucket, "Lima")
    run(one_bucket.table, "savepoint", instant=second)

    [blocker] = plan(one_bucket.table, NAME, instants=f"{second},{third}").blockers

    assert blocker.startswith(f"{second}: the savepoint of {second} holds")


def test_table_that_moved_on_changes_nothing(one_bucket: ScenarioTable) -> None:
    goal = upsert(one_bucket, "Oslo")
    upsert(one_bucket, "Rome")
    shown = plan(one_bucket.table, NAME, after=goal)
    upsert(one_bucket, "Lima")

    with pytest.raises(PlanChanged):
        go(one_bucket, shown, after=goal)

    assert cities(one_bucket) == ["Lima"]


def test_run_that_died_between_two_steps_goes_on_with_what_is_left(
    one_bucket: ScenarioTable,
) -> None:
    upsert(one_bucket, "Oslo")
    chosen = [upsert(one_bucket, city) for city in ("Rome", "Lima", "Bonn")]
    instants = ",".join(chosen)
    shown = plan(one_bucket.table, NAME, instants=instants)
    with pytest.raises(Died):
        go(one_bucket, shown, _dies_at(1), instants=instants)
    assert cities(one_bucket) == ["Lima"]
    roll_back_first(one_bucket, chosen[1])

    outcome = go(one_bucket, shown, instants=instants)

    assert cities(one_bucket) == ["Oslo"]
    assert outcome.summary == (
        f"rolled back: {chosen[2]}, {chosen[0]}; rolled back by another first: {chosen[1]}"
    )


def test_commit_between_two_steps_stops_the_rest_and_it_is_said(one_bucket: ScenarioTable) -> None:
    upsert(one_bucket, "Oslo")
    second, third = upsert(one_bucket, "Rome"), upsert(one_bucket, "Lima")
    instants = f"{second},{third}"
    shown = plan(one_bucket.table, NAME, instants=instants)

    def write(done: int, total: int) -> None:
        if done == 1:
            upsert(one_bucket, "Bonn")

    with pytest.raises(ServiceRefused) as refused:
        go(one_bucket, shown, write, instants=instants)

    assert refused.value.message.startswith(f"stopped at {second}: only the newest")
    assert f"rolled back: {third}; not rolled back: {second}" in refused.value.message
    assert cities(one_bucket) == ["Bonn"]


def test_plan_says_what_another_rolled_back_before(one_bucket: ScenarioTable) -> None:
    upsert(one_bucket, "Oslo")
    second, third = upsert(one_bucket, "Rome"), upsert(one_bucket, "Lima")
    roll_back_first(one_bucket, third)

    shown = plan(one_bucket.table, NAME, instants=f"{second},{third}")
    all_gone = plan(one_bucket.table, NAME, instants=third)

    assert undone(shown) == [second]
    assert shown.warnings[0].startswith(f"{third} was rolled back before, by ")
    assert all_gone.is_empty
    assert all_gone.blockers == ()


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"instants": "yesterday"},
        {"instants": "20200101000000000", "after": "20200101000000000"},
        {"after": "20200101000000000"},
        {"instant": "20200101000000000"},
    ],
)
def test_parameters_that_name_no_instants_are_refused(
    parameters: dict[str, str], one_bucket: ScenarioTable
) -> None:
    upsert(one_bucket, "Oslo")

    with pytest.raises(InvalidInput):
        plan(one_bucket.table, NAME, **parameters)


def test_instant_that_never_was_blocks(one_bucket: ScenarioTable) -> None:
    upsert(one_bucket, "Oslo")

    shown = plan(one_bucket.table, NAME, instants="20200101000000000")

    assert shown.blockers == ("instant 20200101000000000 is not on the active timeline",)


def _dies_at(step: int) -> Progress:
    def on_progress(done: int, total: int) -> None:
        if done == step:
            raise Died

    return on_progress
