"""What a rollback's plan says against it, and of whom it warns: neither more nor less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.scenario_table import ScenarioTable
from tests.support.table_services import run
from workers.recovery.plan import plan_rollback
from workers.timeline import transitions
from workers.timeline.instant import Action, Instant

LOGS = {"hoodie.bucket.index.num.buckets": "1"}


@pytest.fixture
def table(tmp_path: Path) -> ScenarioTable:
    return ScenarioTable(tmp_path / "table", partition_by=["city"])


@pytest.fixture
def logs(tmp_path: Path) -> ScenarioTable:
    return ScenarioTable(tmp_path / "logs", table_type="MERGE_ON_READ", options=LOGS)


def wrote(table: ScenarioTable, *cities: str, name: str = "w") -> str:
    rows = [{"id": number, "city": city} for number, city in enumerate(cities)]
    return table.writer(name).upsert_and_commit(*rows).instant


def of_action(table: ScenarioTable, action: Action) -> Instant:
    [instant] = [one for one in table.instants() if one.action is action]
    return instant


def test_plan_of_the_newest_write_names_its_partitions_and_nothing_against_it(
    table: ScenarioTable,
) -> None:
    newest = wrote(table, "Rome", "Oslo")

    plan = plan_rollback(table.table, newest)

    assert plan.partitions == ("Oslo", "Rome")
    assert (plan.blockers, plan.warnings, plan.is_live) == ((), (), False)


def test_refusal_of_the_table_is_refusal_of_its_rollbacks(table: ScenarioTable) -> None:
    newest = wrote(table, "Rome")

    plan = plan_rollback(replace(table.table, write_refusal="a version to come"), newest)

    assert plan.blockers == ("a version to come",)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_of_held_files_three_are_named_and_the_rest_counted(
    table: ScenarioTable, count: int
) -> None:
    saved = wrote(table, *(f"city{number}" for number in range(count)))
    run(table.table, "savepoint", instant=saved)

    [blocker] = plan_rollback(table.table, saved).blockers

    named = ", ".join(table.data_files()[:3]) + (f" and {count - 3} more" if count > 3 else "")
    assert blocker == f"the savepoint of {saved} holds {count} files: {named}; delete it first"


def test_savepoint_of_another_commit_is_not_in_the_way(table: ScenarioTable) -> None:
    saved = wrote(table, "Oslo")
    run(table.table, "savepoint", instant=saved)

    assert plan_rollback(table.table, wrote(table, "Rome")).blockers == ()


def test_pending_rewrite_may_be_taken_back_and_a_pending_clean_not(logs: ScenarioTable) -> None:
    wrote(logs, "Oslo")
    wrote(logs, "Rome")
    run(logs.table, "compaction", schedule_only="true")
    compaction = of_action(logs, Action.COMPACTION)
    clean = str(int(compaction.requested_at) + 1)
    transitions.request(logs.storage, clean, Action.CLEAN, b"")

    assert plan_rollback(logs.table, compaction.requested_at).blockers == ()
    assert plan_rollback(logs.table, clean).blockers == (
        "only writes are rolled back, this is a clean",
    )
    logs.storage.delete(f".hoodie/timeline/{clean}.clean.requested")


def test_pending_plan_is_in_the_way_of_what_it_reads_and_of_nothing_else(
    logs: ScenarioTable,
) -> None:
    wrote(logs, "Oslo")
    read_by_it = wrote(logs, "Rome")
    run(logs.table, "compaction", schedule_only="true")
    plan = of_action(logs, Action.COMPACTION).requested_at
    [log] = [file.path for file in plan_rollback(logs.table, read_by_it).files]

    assert plan_rollback(logs.table, read_by_it).blockers == (
        f"the pending plan {plan} reads 1 files: {log}; run it or take it back",
    )
    assert plan_rollback(logs.table, wrote(logs, "Bergen")).blockers == ()


# ---- of whom it warns


def test_living_target_is_warned_of_once_and_others_are_not(table: ScenarioTable) -> None:
    busy = table.writer("busy").upsert({"id": 1, "city": "Oslo"})
    other = table.writer("other").upsert({"id": 2, "city": "Oslo"})

    plan = plan_rollback(table.table, busy.last_instant)

    assert plan.is_live
    assert plan.warnings == (
        "its writer is alive: it will be stopped at its next marker or at commit",
    )
    busy.abort()
    other.abort()


def test_of_those_that_may_have_built_on_a_commit_only_the_living_are_named(
    table: ScenarioTable,
) -> None:
    newest = wrote(table, "Rome")
    living = [table.writer(name).upsert({"id": 2, "city": "Oslo"}) for name in ("b", "a")]
    dead = table.writer("dead").upsert({"id": 3, "city": "Oslo"})
    dead.dies()

    assert plan_rollback(table.table, newest).warnings == (
        "live writers that built on it will lose a conflict: a, b",
    )

    assert plan_rollback(table.table, dead.last_instant).warnings == ()
    assert not plan_rollback(table.table, dead.last_instant).is_live
    for writer in living:
        writer.abort()
