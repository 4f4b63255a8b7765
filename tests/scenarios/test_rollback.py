"""An admin takes a commit back: its plan is shown first and holds when it runs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables, ScenarioWriter
from tests.support.watched_storage import At, Died, WatchedStorage, fails
from workers.concurrency.heartbeat import read_heartbeats
from workers.errors import PlanChanged, RollbackRefused, StopPointRaised
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.plan import RollbackPlan
from workers.recovery.rollback import RollbackOutcome, RollbackRequest, rollback
from workers.timeline import decisions
from workers.timeline.instant import Action, State
from workers.timeline.layout import TimelineLayout
from workers.timeline.metadata import read_rollback_targets

OPTIONS = write_options({})


def roll_back(
    table: ScenarioTable, instant: str, *, plan_hash: str | None = None, is_forced: bool = False
) -> RollbackOutcome:
    request = RollbackRequest(
        instant, by="admin", reason="test", expected_plan_hash=plan_hash, is_forced=is_forced
    )
    return rollback(table.table, request, OPTIONS)


def plan(table: ScenarioTable, instant: str) -> RollbackPlan:
    rollback_plan = table.lakehouse.rollback(instant, dry_run=True)
    assert isinstance(rollback_plan, RollbackPlan)
    return rollback_plan


def test_newest_commit_is_taken_back_as_its_plan_said(table: ScenarioTable) -> None:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    before = table.data_files()
    wrong = table.writer("wrong").upsert_and_commit(
        {"id": 1, "city": "Rome"}, {"id": 2, "city": "Rome"}
    )
    shown = plan(table, wrong.instant)

    outcome = roll_back(table, wrong.instant, plan_hash=shown.plan_hash)

    assert outcome.files_deleted == len(shown.files) == 2
    assert shown.blockers == ()
    assert table.data_files() == before
    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    assert table.leftovers() == []


def test_a_dry_run_names_every_file_and_byte_and_changes_nothing(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "A"}, {"id": 2, "city": "B"})
    listing = table.listing()

    shown = plan(table, wrong.instant)

    sizes = {path: len(listing[path]) for path in table.data_files()}
    assert {file.path: file.bytes for file in shown.files} == sizes
    assert shown.bytes_total == sum(sizes.values())
    assert shown.partitions == ("",)
    assert (shown.action, shown.state) == ("commit", "completed")
    assert table.listing() == listing


def test_older_commit_is_refused_and_the_order_is_named(table: ScenarioTable) -> None:
    """Bug B11."""
    commits = [
        table.writer("w").upsert_and_commit({"id": 1, "city": city}).instant
        for city in ("Oslo", "Bergen", "Rome")
    ]

    with pytest.raises(RollbackRefused) as refused:
        roll_back(table, commits[0])

    assert f"first: {commits[2]}, {commits[1]}" in str(refused.value)
    assert table.rows() == [{"id": 1, "city": "Rome"}]


def test_commits_are_taken_back_one_by_one_in_the_named_order(table: ScenarioTable) -> None:
    commits = [
        table.writer("w").upsert_and_commit({"id": 1, "city": city}).instant
        for city in ("Oslo", "Bergen", "Rome")
    ]

    seen = []
    for instant in reversed(commits):
        roll_back(table, instant)
        seen.append(table.rows("city"))

    assert seen == [[{"city": "Bergen"}], [{"city": "Oslo"}], []]
    assert table.data_files() == []


def test_rollback_twice_is_rollback_once(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})
    once = roll_back(table, wrong.instant)
    listing = table.listing()

    twice = roll_back(table, wrong.instant)

    assert twice.rollback_instant == once.rollback_instant
    assert table.listing() == listing


def test_plan_that_changed_since_it_was_shown_is_not_run(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})
    shown = plan(table, wrong.instant)
    table.writer("other").upsert_and_commit({"id": 2, "city": "Oslo"})

    with pytest.raises(PlanChanged):
        roll_back(table, wrong.instant, plan_hash=shown.plan_hash)

    assert [row["id"] for row in table.rows()] == [1, 2]
    assert decisions.find_rollback_instant(table.storage, wrong.instant) is None


def test_plan_of_a_pending_writer_that_wrote_more_since_is_not_run(table: ScenarioTable) -> None:
    busy = table.writer("busy").upsert({"id": 1, "city": "Oslo"})
    shown = plan(table, busy.last_instant)
    busy.write({"id": 2, "city": "Oslo"}, attempt=1)

    with pytest.raises(PlanChanged):
        roll_back(table, busy.last_instant, plan_hash=shown.plan_hash, is_forced=True)

    busy.wins()


def test_instant_that_created_the_table_is_refused(table: ScenarioTable) -> None:
    creation = table.instants()[0].requested_at

    with pytest.raises(RollbackRefused, match="created the table"):
        roll_back(table, creation)

    assert table.schema_columns() == ["id", "city"]


def test_instant_that_never_was_is_refused(table: ScenarioTable) -> None:
    with pytest.raises(RollbackRefused, match="not on the active timeline"):
        roll_back(table, "20200101000000000")

    assert plan(table, "20200101000000000").blockers != ()


def test_rollback_itself_is_not_rolled_back(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})
    undo = roll_back(table, wrong.instant).rollback_instant
    assert undo is not None

    with pytest.raises(RollbackRefused, match="only writes are rolled back"):
        roll_back(table, undo)


def test_live_writer_is_not_rolled_back_without_force(table: ScenarioTable) -> None:
    busy = table.writer("busy").upsert({"id": 1, "city": "Oslo"})
    assert plan(table, busy.last_instant).is_live

    with pytest.raises(RollbackRefused, match="alive"):
        roll_back(table, busy.last_instant)

    busy.wins()


def test_live_writer_that_was_rolled_back_by_force_is_told_so(table: ScenarioTable) -> None:
    busy = table.writer("busy").upsert({"id": 1, "city": "Oslo"})

    roll_back(table, busy.last_instant, is_forced=True)

    rolled_back = busy.is_told_rolled_back()
    assert rolled_back.reason == "test"
    assert table.rows() == []
    assert table.orphan_files() == []
    assert table.leftovers() == []


def test_plan_warns_of_live_writers_that_built_on_the_commit(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})
    builder = table.writer("builder").upsert({"id": 1, "city": "Oslo"})

    shown = plan(table, wrong.instant)

    assert any("builder" in warning for warning in shown.warnings)
    builder.abort()


@pytest.mark.parametrize("mode", ["single", "optimistic"])
def test_writer_that_built_on_an_undone_base_file_loses(table: ScenarioTable, mode: str) -> None:
    wrong = table.writer("wrong").upsert_and_commit(
        {"id": 1, "city": "Rome"}, {"id": 9, "city": "Rome"}
    )
    builder = table.writer("builder", mode=mode).upsert({"id": 1, "city": "Oslo"})
    roll_back(table, wrong.instant)

    conflict = builder.loses()

    assert conflict.rival == wrong.instant
    assert "rolled back" in conflict.message
    assert table.rows() == []
    assert table.orphan_files() == []


def test_writer_of_another_file_group_survives_the_undoing(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})
    other = table.writer("other").upsert({"id": 2, "city": "Oslo"})
    roll_back(table, wrong.instant)

    other.wins()

    assert table.rows() == [{"id": 2, "city": "Oslo"}]


def test_log_file_on_an_undone_base_stays_readable(tables: ScenarioTables) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    wrong = table.writer("wrong").upsert_and_commit(
        {"id": "a", "ts": 1, "value": 1, "note": "wrong"}
    )
    later = table.writer("later").upsert({"id": "a", "ts": 2, "value": 2})
    roll_back(table, wrong.instant)

    later.wins()

    assert table.rows("id", "value", "note") == [{"id": "a", "value": 2, "note": None}]


def test_schema_of_an_undone_commit_goes_with_it(table: ScenarioTable) -> None:
    evolved = table.writer("evolved").upsert_and_commit({"id": 1, "city": "Rome", "size": 3})
    assert table.schema_columns() == ["id", "city", "size"]

    roll_back(table, evolved.instant)

    assert table.schema_columns() == ["id", "city"]


def test_rollback_is_recorded_with_its_target(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})

    undo = roll_back(table, wrong.instant)

    assert undo.rollback_instant is not None
    recorded = table.table.timeline().find(undo.rollback_instant)
    assert recorded is not None
    assert (recorded.action, recorded.state) == (Action.ROLLBACK, State.COMPLETED)
    content = table.storage.read(TimelineLayout().path(recorded))
    assert read_rollback_targets(content) == [wrong.instant]
    assert table.table.timeline().find(wrong.instant) is None
    assert decisions.find_rollback_instant(table.storage, wrong.instant) == undo.rollback_instant


def test_reader_during_a_rollback_sees_the_old_or_the_new_table(table: ScenarioTable) -> None:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"}, {"id": 2, "city": "Oslo"})
    wrong = table.writer("wrong").upsert_and_commit(
        {"id": 1, "city": "Rome"}, {"id": 2, "city": "Rome"}
    )
    seen = []

    rollback(
        table.table,
        RollbackRequest(wrong.instant, by="admin", reason="test"),
        OPTIONS,
        on_progress=lambda done, total: seen.append((done, total, table.rows("city"))),
    )

    assert seen == [
        (1, 2, [{"city": "Oslo"}, {"city": "Oslo"}]),
        (2, 2, [{"city": "Oslo"}, {"city": "Oslo"}]),
    ]


@pytest.mark.parametrize("point", ["rollback_after_decision", "rollback_after_delete"])
@pytest.mark.parametrize("is_pending", [True, False])
def test_rollback_that_died_half_way_is_finished_by_the_next_writer(
    table: ScenarioTable, monkeypatch: pytest.MonkeyPatch, point: str, is_pending: bool
) -> None:
    """Bugs B3, B6: whatever step it died at."""
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    wrong = table.writer("wrong").upsert({"id": 1, "city": "Rome"})
    if not is_pending:
        wrong.wins()
    monkeypatch.setenv("SLUICE_ALLOW_STOP_POINTS", "1")
    monkeypatch.setenv("SLUICE_STOP_POINTS", f'[{{"point": "{point}", "action": "raise"}}]')
    with pytest.raises(StopPointRaised):
        roll_back(table, wrong.last_instant, is_forced=True)
    monkeypatch.delenv("SLUICE_STOP_POINTS")

    table.writer("next").upsert_and_commit({"id": 2, "city": "Bergen"})

    assert table.rows() == [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]
    rollbacks = [one for one in table.instants() if one.action is Action.ROLLBACK]
    assert [one.is_completed for one in rollbacks] == [True]
    assert table.orphan_files() == []
    wrong.falls_silent()


def test_commit_that_is_decided_but_not_published_is_finished_and_not_undone_by_cleaning(
    table: ScenarioTable,
) -> None:
    unlucky = dies_before_publishing(table)
    assert table.rows() == []

    roll_back_dead_writers(table.table, OPTIONS)
    table.writer("next").upsert_and_commit({"id": 2, "city": "Bergen"})

    assert table.metadata(unlucky.last_instant).extra_metadata["sluice.writer.name"] == "unlucky"
    assert table.rows() == [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]
    assert table.orphan_files() == []
    assert table.leftovers() == []


def test_plan_of_a_decided_commit_says_that_it_will_be_published(table: ScenarioTable) -> None:
    unlucky = dies_before_publishing(table)

    shown = plan(table, unlucky.last_instant)

    assert any("decided already" in blocker for blocker in shown.blockers)


def dies_before_publishing(table: ScenarioTable) -> ScenarioWriter:
    """Decided to commit, and died before the completed file was there."""
    at_publishing = At("put_if_absent", ".commit", fails(Died()))
    storage = WatchedStorage(
        table.location, before=lambda call, path: at_publishing(call, path) if "_" in path else None
    )
    unlucky = table.writer("unlucky", storage=storage).upsert({"id": 1, "city": "Oslo"})
    with pytest.raises(Died):
        unlucky.commit()
    unlucky.dies()
    return unlucky


def test_no_heartbeat_stays_of_a_writer_that_was_rolled_back(table: ScenarioTable) -> None:
    busy = table.writer("busy").upsert({"id": 1, "city": "Oslo"})

    roll_back(table, busy.last_instant, is_forced=True)
    busy.is_told_rolled_back()

    assert read_heartbeats(table.storage) == []


def reading(key: str, place: str, value: int = 1, **more: object) -> dict[str, object]:
    return {"id": key, "place": place, "ts": value, "value": value, **more}


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def places(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    """A table with one row in Oslo and one in Rome."""
    table = tables(
        table_type=request.param,
        schema=READINGS,
        partition_by=["place"],
        options={
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
        },
    )
    table.writer("first").upsert_and_commit(reading("o1", "Oslo"), reading("r1", "Rome"))
    return table


def test_plan_holds_while_streams_leave_its_file_groups_alone(places: ScenarioTable) -> None:
    before = places.rows()
    wrong = places.writer("wrong").upsert_and_commit(
        reading("o1", "Oslo", 9), reading("o2", "Oslo", 9)
    )
    shown = plan(places, wrong.instant)
    places.writer("clicks", stream="clicks").upsert_and_commit(reading("r2", "Rome", 2))
    places.writer("views", stream="views").upsert_and_commit(reading("r1", "Rome", 3))

    roll_back(places, wrong.instant, plan_hash=shown.plan_hash)

    kept = {row["id"]: row["value"] for row in places.rows()}
    assert kept == {row["id"]: row["value"] for row in before} | {"r1": 3, "r2": 2}
    assert places.leftovers() == []
    places.writer("next").upsert_and_commit(reading("o1", "Oslo", 4))
    assert {row["id"]: row["value"] for row in places.rows()} == kept | {"o1": 4}


def test_under_a_global_index_every_later_write_goes_first(tables: ScenarioTables) -> None:
    table = tables(
        table_type="MERGE_ON_READ",
        schema=READINGS,
        partition_by=["place"],
        ordering=["ts"],
        options={
            "hoodie.index.type": "GLOBAL_SIMPLE",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        },
    )
    table.writer("first").upsert_and_commit(reading("r1", "Rome"))
    wrong = table.writer("wrong").upsert_and_commit(reading("o1", "Oslo", 9))
    later = table.writer("clicks", stream="clicks").upsert_and_commit(reading("r2", "Rome", 2))

    assert later.instant in plan(table, wrong.instant).blockers[0]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("wrong_stream", "wrong_row", "stream", "row"),
    [
        pytest.param(None, {}, "clicks", reading("o1", "Oslo", 2), id="its file group"),
        pytest.param("clicks", {}, "clicks", reading("r2", "Rome", 2), id="the same stream"),
        pytest.param(None, {}, None, reading("r2", "Rome", 2), id="a write that may have read"),
        pytest.param(
            None, {"_hoodie_is_deleted": True}, "clicks", reading("r2", "Rome", 2), id="its deletes"
        ),
        pytest.param(None, {"extra": 1}, "clicks", reading("r2", "Rome", 2), id="its schema"),
    ],
)
def test_plan_is_void_once_a_later_write_depends_on_it(
    places: ScenarioTable,
    wrong_stream: str | None,
    wrong_row: dict[str, object],
    stream: str | None,
    row: dict[str, object],
) -> None:
    batch = pa.Table.from_pylist([reading("o1", "Oslo", 9, **wrong_row)])
    batch = batch.set_column(
        batch.schema.get_field_index("value"), "value", batch["value"].cast("int32")
    )
    writer = places.writer("wrong", stream=wrong_stream).begin(batch.schema)
    writer.write_batch(batch)
    wrong = writer.wins()
    shown = plan(places, wrong.instant)
    later = places.writer("later", stream=stream).upsert_and_commit(row)
    rows = places.rows()

    with pytest.raises(PlanChanged):
        roll_back(places, wrong.instant, plan_hash=shown.plan_hash)

    assert later.instant in plan(places, wrong.instant).blockers[0]
    assert places.rows() == rows
