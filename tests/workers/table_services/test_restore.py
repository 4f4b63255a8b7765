"""Savepoints and restore: the table is as it was, on storage too, whoever was writing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.table_services import plan, run
from workers.errors import InvalidInput, PlanChanged, RollbackRefused, ServiceBusy, ServiceRefused
from workers.lakehouse import LakehouseTable
from workers.schema.alter import AddColumn
from workers.timeline import transitions
from workers.timeline.instant import Action, State
from workers.timeline.savepoint_metadata import (
    RestorePlanFile,
    read_restore_targets,
    read_savepoint_metadata,
)
from workers.timeline.timeline import Timeline

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


def test_savepoint_names_every_file_of_its_commit(logs: ScenarioTable) -> None:
    upsert(logs, "Oslo", mode="non-blocking")
    saved = upsert(logs, "Rome", mode="non-blocking")
    files = set(logs.data_files())
    upsert(logs, "Lima", mode="non-blocking")

    run(logs.table, "savepoint", instant=saved, comment="before the migration")

    [savepoint] = [one for one in logs.instants() if one.action is Action.SAVEPOINT]
    content = logs.storage.read(logs.table.layout.path(savepoint))
    metadata = read_savepoint_metadata(content)
    assert metadata.paths == files
    assert (metadata.by, metadata.comment) == ("test", "before the migration")
    assert (savepoint.requested_at, savepoint.state) == (saved, State.COMPLETED)


def test_commit_has_one_savepoint_at_most(one_bucket: ScenarioTable) -> None:
    upsert(one_bucket, "Oslo")
    run(one_bucket.table, "savepoint")

    with pytest.raises(ServiceRefused, match="already"):
        run(one_bucket.table, "savepoint")
    with pytest.raises(ServiceRefused, match="completed commit"):
        run(one_bucket.table, "savepoint", instant="20200101000000000")


def test_restore_takes_an_alteration_back(one_bucket: ScenarioTable) -> None:
    """It commits a schema and no file, as the creation of a table does."""
    saved = upsert(one_bucket, "Oslo")
    table = LakehouseTable(one_bucket.table)
    table.alter(AddColumn("note", pa.string()))
    upsert(one_bucket, "Rome")

    table.restore(saved)

    assert cities(one_bucket) == ["Oslo"]
    assert "note" not in table.read().column_names
    upsert(one_bucket, "Lima")
    assert cities(one_bucket) == ["Lima"]


def test_deleting_a_savepoint_twice_is_refused(one_bucket: ScenarioTable) -> None:
    saved = upsert(one_bucket, "Oslo")
    run(one_bucket.table, "savepoint")
    run(one_bucket.table, "delete_savepoint", instant=saved)

    with pytest.raises(ServiceRefused, match="no savepoint"):
        run(one_bucket.table, "delete_savepoint", instant=saved)
    assert Action.SAVEPOINT not in {one.action for one in one_bucket.instants()}


def test_restore_takes_back_all_that_came_later(one_bucket: ScenarioTable) -> None:
    goal = upsert(one_bucket, "Oslo")
    before = one_bucket.data_files()
    later = [upsert(one_bucket, city) for city in ("Rome", "Lima", "Bonn")]

    outcome = run(one_bucket.table, "restore", instant=goal)

    assert outcome.figures == {"instants": 3}
    assert cities(one_bucket) == ["Oslo"]
    assert one_bucket.data_files() == before
    [done] = [one for one in one_bucket.instants() if one.action is Action.RESTORE]
    content = one_bucket.storage.read(one_bucket.table.layout.path(done))
    assert sorted(read_restore_targets(content)) == later


def test_writes_go_on_after_a_restore(one_bucket: ScenarioTable) -> None:
    goal = upsert(one_bucket, "Oslo")
    upsert(one_bucket, "Rome")
    run(one_bucket.table, "restore", instant=goal)

    upsert(one_bucket, "Bonn")

    assert cities(one_bucket) == ["Bonn"]
    assert one_bucket.orphan_files() == []


def test_plan_of_a_restore_names_instants_newest_first_and_files(
    one_bucket: ScenarioTable,
) -> None:
    goal = upsert(one_bucket, "Oslo")
    second, third = upsert(one_bucket, "Rome"), upsert(one_bucket, "Lima")

    shown = plan(one_bucket.table, "restore", instant=goal)

    undone = [item.what for item in shown.items if item.effect == "undo"]
    deleted = [item.what for item in shown.items if item.effect == "delete"]
    assert undone == [third, second]
    assert sorted(deleted) == sorted(one_bucket.data_files()[1:])
    assert shown.bytes_total > 0
    upsert(one_bucket, "Bonn")
    with pytest.raises(PlanChanged):
        run(one_bucket.table, "restore", instant=goal, expected_plan_hash=shown.plan_hash)


def test_b13_restore_over_a_compaction_leaves_what_is_reachable_and_nothing_else(
    logs: ScenarioTable,
) -> None:
    upsert(logs, "Oslo", mode="non-blocking")
    goal = upsert(logs, "Rome", mode="non-blocking")
    before = logs.data_files()
    run(logs.table, "compaction")
    upsert(logs, "Lima", mode="non-blocking")
    assert len(logs.data_files()) == 4

    run(logs.table, "restore", instant=goal)

    assert cities(logs) == ["Rome"]
    assert logs.data_files() == before
    upsert(logs, "Bonn", mode="non-blocking")
    run(logs.table, "compaction")
    assert cities(logs) == ["Bonn"]


def test_b13_pending_compaction_plan_goes_with_a_restore(logs: ScenarioTable) -> None:
    goal = upsert(logs, "Oslo", mode="non-blocking")
    upsert(logs, "Rome", mode="non-blocking")
    run(logs.table, "compaction", schedule_only="true")

    run(logs.table, "restore", instant=goal)

    assert list(logs.table.timeline().pending()) == []
    assert cities(logs) == ["Oslo"]


def test_restore_over_a_replacement_brings_replaced_rows_back(one_bucket: ScenarioTable) -> None:
    goal = upsert(one_bucket, "Oslo")
    one_bucket.lakehouse.write(
        one_bucket.batch([{"id": 2, "city": "Rome"}]),
        "insert_overwrite_table",
        options={"hoodie.write.markers.type": "direct"},
    )
    assert cities(one_bucket) == ["Rome"]

    run(one_bucket.table, "restore", instant=goal)

    assert cities(one_bucket) == ["Oslo"]


def test_b14_live_writers_are_fenced_first_and_told(one_bucket: ScenarioTable) -> None:
    goal = upsert(one_bucket, "Oslo")
    writers = [one_bucket.writer(f"live{number}") for number in range(3)]
    for number, writer in enumerate(writers):
        writer.upsert({"id": 10 + number, "city": "lost"})
    upsert(one_bucket, "Rome")
    shown = plan(one_bucket.table, "restore", instant=goal)
    assert any("live0, live1, live2" in one for one in shown.warnings)

    run(one_bucket.table, "restore", instant=goal)

    for writer in writers:
        assert writer.is_told_rolled_back().reason == "a test"
    assert cities(one_bucket) == ["Oslo"]
    assert one_bucket.orphan_files() == []


def test_nobody_begins_to_write_while_a_restore_is_pending(one_bucket: ScenarioTable) -> None:
    goal = upsert(one_bucket, "Oslo")
    later = upsert(one_bucket, "Rome")
    content = RestorePlanFile(goal, ((later, "commit"),)).encode()
    at = str(int(one_bucket.table.timeline().last_time or "0") + 1)
    transitions.request(one_bucket.storage, at, Action.RESTORE, content)

    with pytest.raises(ServiceBusy, match="restored"):
        upsert(one_bucket, "Bonn")
    shown = plan(one_bucket.table, "restore", instant=goal)
    assert shown.instant == at
    run(one_bucket.table, "restore", instant=goal)

    upsert(one_bucket, "Bonn")
    assert cities(one_bucket) == ["Bonn"]


def test_a8_empty_restore_plan_goes(one_bucket: ScenarioTable) -> None:
    goal = upsert(one_bucket, "Oslo")
    upsert(one_bucket, "Rome")
    at = str(int(one_bucket.table.timeline().last_time or "0") + 1)
    transitions.request(one_bucket.storage, at, Action.RESTORE, b"")

    run(one_bucket.table, "restore", instant=goal)

    assert cities(one_bucket) == ["Oslo"]
    assert list(one_bucket.table.timeline().pending()) == []


def test_restore_below_a_newer_savepoint_is_refused(one_bucket: ScenarioTable) -> None:
    goal, saved = upsert(one_bucket, "Oslo"), upsert(one_bucket, "Rome")
    run(one_bucket.table, "savepoint", instant=saved)

    with pytest.raises(ServiceRefused, match=f"savepoint of {saved} is newer"):
        run(one_bucket.table, "restore", instant=goal)


def test_restore_to_what_was_cleaned_away_is_refused_with_names(
    one_bucket: ScenarioTable,
) -> None:
    goal = upsert(one_bucket, "Oslo")
    [needed] = one_bucket.data_files()
    for city in ("Rome", "Lima", "Bonn"):
        upsert(one_bucket, city)
    run(one_bucket.table, "clean", commits="1")

    with pytest.raises(ServiceRefused, match=needed):
        run(one_bucket.table, "restore", instant=goal)


def test_savepoint_makes_the_same_restore_possible(one_bucket: ScenarioTable) -> None:
    goal = upsert(one_bucket, "Oslo")
    run(one_bucket.table, "savepoint", instant=goal)
    for city in ("Rome", "Lima", "Bonn"):
        upsert(one_bucket, city)
    run(one_bucket.table, "clean", commits="1")

    run(one_bucket.table, "restore", instant=goal)

    assert cities(one_bucket) == ["Oslo"]


def test_restore_of_an_unknown_instant_is_refused(one_bucket: ScenarioTable) -> None:
    with pytest.raises(InvalidInput):
        plan(one_bucket.table, "restore")
    with pytest.raises(ServiceRefused, match="active timeline"):
        run(one_bucket.table, "restore", instant="20200101000000000")


def test_b8_write_that_a_pending_compaction_reads_is_not_rolled_back(
    logs: ScenarioTable,
) -> None:
    newest = upsert(logs, "Oslo", mode="non-blocking")
    run(logs.table, "compaction", schedule_only="true")

    with pytest.raises(RollbackRefused, match="pending plan"):
        logs.lakehouse.rollback(newest, dry_run=False)
    run(logs.table, "compaction")

    assert cities(logs) == ["Oslo"]


def test_completed_compaction_is_taken_back_by_a_restore_only(logs: ScenarioTable) -> None:
    upsert(logs, "Oslo", mode="non-blocking")
    compacted = run(logs.table, "compaction").instant
    assert compacted is not None

    with pytest.raises(RollbackRefused, match="only a restore"):
        logs.lakehouse.rollback(compacted, dry_run=False)


def test_rollback_of_a_savepointed_commit_is_refused_with_names(
    one_bucket: ScenarioTable,
) -> None:
    upsert(one_bucket, "Oslo")
    saved = upsert(one_bucket, "Rome")
    run(one_bucket.table, "savepoint", instant=saved)
    newest = one_bucket.data_files()[-1]

    with pytest.raises(RollbackRefused, match=newest):
        one_bucket.lakehouse.rollback(saved, dry_run=False)


def test_rollback_of_a_replacement_shows_the_old_rows_again(one_bucket: ScenarioTable) -> None:
    upsert(one_bucket, "Oslo")
    one_bucket.lakehouse.write(
        one_bucket.batch([{"id": 2, "city": "Rome"}]),
        "insert_overwrite_table",
        options={"hoodie.write.markers.type": "direct"},
    )
    [replacement] = [one for one in one_bucket.instants() if one.action is Action.REPLACECOMMIT]

    one_bucket.lakehouse.rollback(replacement.requested_at, dry_run=False)

    assert cities(one_bucket) == ["Oslo"]


def test_rollback_whose_former_state_was_cleaned_is_refused(one_bucket: ScenarioTable) -> None:
    upsert(one_bucket, "Oslo")
    newest = upsert(one_bucket, "Rome")
    run(one_bucket.table, "clean", policy="KEEP_LATEST_FILE_VERSIONS", versions="1")

    with pytest.raises(RollbackRefused, match="cleaned away"):
        one_bucket.lakehouse.rollback(newest, dry_run=False)


def test_b11_older_commit_is_refused_with_its_dependants(one_bucket: ScenarioTable) -> None:
    older, newer = upsert(one_bucket, "Oslo"), upsert(one_bucket, "Rome")
    one_bucket.lakehouse.write(
        one_bucket.batch([{"id": 2, "city": "Rome"}]),
        "insert_overwrite_table",
        options={"hoodie.write.markers.type": "direct"},
    )
    replacement = Timeline.load(one_bucket.storage).list_completed_writes()[-1].requested_at

    with pytest.raises(RollbackRefused, match=f"{replacement} .a replacement., {newer}"):
        one_bucket.lakehouse.rollback(older, dry_run=False)
