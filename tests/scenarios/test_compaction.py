"""Compaction beside writers, readers, rivals and its own dead executors."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.scenarios.services import Died, dies_before_finishing, grows_cold, plan, run, scheduled
from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.errors import (
    InstantRolledBack,
    InvalidInput,
    PlanChanged,
    PlanOvertaken,
    ServiceBusy,
    ServiceRefused,
)
from workers.options.write_options import write_options
from workers.table_services.execution import claim_plan
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import Action

OPTIONS = write_options({"hoodie.write.markers.type": "direct"})


@pytest.fixture
def merged(tables: ScenarioTables) -> ScenarioTable:
    """Merge-on-read, ordered by `ts`, one bucket: a base file and two logs."""
    table = tables(
        schema=READINGS,
        table_type="MERGE_ON_READ",
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    ingest = table.writer("ingest")
    ingest.upsert_and_commit(_row("a", 1, 10), _row("b", 1, 20), _row("c", 1, 30))
    ingest.upsert_and_commit(_row("a", 3, 13))
    ingest.upsert_and_commit(_row("a", 2, 12), _row("b", 2, 22), _row("d", 1, 40))
    return table


def _row(key: str, ts: int, value: int, note: str | None = None) -> dict[str, object]:
    return {"id": key, "place": "p", "ts": ts, "value": value, "note": note}


def _logs(table: ScenarioTable) -> list[int]:
    return [len(one.log_files) for one in table.lakehouse.file_groups()]


def test_compaction_leaves_the_rows_and_takes_the_logs_away(merged: ScenarioTable) -> None:
    before = merged.rows()
    shown = plan(merged, "compaction")

    outcome = run(merged, "compaction")

    assert shown.figures["log_files"] == 2
    assert shown.figures["delta_commits"] == 3
    assert outcome.figures["log_files"] == 2
    assert merged.rows() == before
    assert _logs(merged) == [0]
    assert merged.timeline()[-1] == ("commit", "completed")
    assert merged.leftovers() == []
    assert merged.orphan_files() == []
    assert plan(merged, "compaction").is_empty


def test_commit_of_a_compaction_says_so_and_repeats_the_schema(merged: ScenarioTable) -> None:
    outcome = run(merged, "compaction")

    assert outcome.instant is not None
    metadata = merged.metadata(outcome.instant)
    [stat] = metadata.stats
    assert metadata.compacted
    assert metadata.operation_type == "COMPACT"
    assert metadata.schema_json == merged.table.config.create_schema_json
    assert (stat.num_writes, stat.num_updates, stat.num_inserts) == (4, 3, 0)
    assert stat.prev_commit < outcome.instant
    assert (stat.prev_base_file or "").endswith(f"_{stat.prev_commit}.parquet")


def test_rows_keep_their_commit_time_and_get_the_new_file_name(merged: ScenarioTable) -> None:
    from workers.read.snapshot import read_snapshot

    before = read_snapshot(merged.table, with_meta_columns=True).sort_by("_hoodie_record_key")
    run(merged, "compaction")
    after = read_snapshot(merged.table, with_meta_columns=True).sort_by("_hoodie_record_key")

    kept = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key"]
    assert after.select(kept) == before.select(kept)
    [slice_] = merged.lakehouse.file_groups()
    assert set(after.column("_hoodie_file_name").to_pylist()) == {slice_.base_file}


def test_writer_that_completes_while_a_plan_is_pending_is_of_the_next_slice(
    merged: ScenarioTable,
) -> None:
    """Case H2: its log is not in the compacted base, and is not lost either."""
    early = merged.writer("early").upsert(_row("b", 8, 88))  # Requested before the plan.
    instant = scheduled(merged, "compaction")
    early.wins()
    merged.writer("late").upsert_and_commit(_row("c", 9, 99))
    before = merged.rows()

    run(merged, "compaction")

    assert merged.rows() == before
    assert _logs(merged) == [2]
    assert {row["id"]: row["value"] for row in before} == {"a": 13, "b": 88, "c": 99, "d": 40}
    [slice_] = merged.lakehouse.file_groups()
    assert slice_.base_instant == instant


def test_writer_that_began_before_a_compaction_completes_after_it(merged: ScenarioTable) -> None:
    slow = merged.writer("slow").upsert(_row("a", 7, 77))
    run(merged, "compaction")

    slow.wins()

    assert merged.rows("id", "value")[0] == {"id": "a", "value": 77}


def test_pending_file_groups_are_not_planned_twice(merged: ScenarioTable) -> None:
    scheduled(merged, "compaction")
    merged.writer("ingest").upsert_and_commit(_row("a", 5, 15))

    again = run(merged, "compaction", {"schedule_only": "true"})

    assert again.instant is None
    assert plan(merged, "compaction", {"schedule_only": "true"}).is_empty
    assert plan(merged, "compaction").figures["pending_groups"] == 1


def test_plan_whose_commit_was_taken_back_never_comes_true(merged: ScenarioTable) -> None:
    """Bug B8: the compacted base would hold rows that nobody committed."""
    instant = scheduled(merged, "compaction")
    newest = merged.table.timeline().list_completed_writes()[-1]
    _taken_back_by_a_foreign_engine(merged, newest.requested_at)
    before = merged.rows()

    with pytest.raises(PlanOvertaken, match="taken back"):
        run(merged, "compaction")

    assert merged.rows() == before
    assert merged.table.timeline().find(instant) is None
    assert run(merged, "compaction").figures["log_files"] == 1
    assert merged.rows() == before


def _taken_back_by_a_foreign_engine(table: ScenarioTable, instant: str) -> None:
    """It asks nobody; ours would be refused while a plan reads the commit's files."""
    for file in table.storage.list_files(".hoodie/timeline"):
        if file.name.startswith(instant):
            table.storage.delete(file.path)
    table.reported.remove(instant)


def test_commit_taken_back_while_its_log_is_being_merged_is_noticed(
    merged: ScenarioTable,
) -> None:
    """Bug B8, the other order: everything is merged already when the commit goes."""
    instant = scheduled(merged, "compaction")
    newest = merged.table.timeline().list_completed_writes()[-1]

    def undo(done: int, total: int) -> None:
        if done == total:
            _taken_back_by_a_foreign_engine(merged, newest.requested_at)

    with pytest.raises(PlanOvertaken):
        run(merged, "compaction", on_progress=undo)

    assert merged.table.timeline().find(instant) is None
    assert {row["id"]: row["value"] for row in merged.rows()} == {"a": 13, "b": 20, "c": 30}


def test_second_executor_is_told_who_is_at_work(merged: ScenarioTable) -> None:
    instant = scheduled(merged, "compaction")
    options = write_options({"sluice.writer.name": "first"})

    with claim_plan(merged.table, options, instant, Action.COMPACTION, service="compaction"):
        with pytest.raises(ServiceBusy, match="by=first"):
            run(merged, "compaction")
        assert merged.table.timeline().find(instant) is not None

    assert run(merged, "compaction").instant == instant


def test_dead_executor_is_followed_by_another_and_leaves_no_file(
    merged: ScenarioTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug B9: the plan outlives whoever carried it out."""
    before = merged.rows()
    instant = scheduled(merged, "compaction")
    with dies_before_finishing(monkeypatch), pytest.raises(Died):
        run(merged, "compaction")
    assert len(merged.data_files()) == 4
    with pytest.raises(ServiceBusy):
        run(merged, "compaction")
    grows_cold(merged, instant)
    merged.writer("passer-by").upsert_and_commit(_row("e", 1, 50))  # Rolls dead writers back.

    assert run(merged, "compaction").instant == instant

    assert merged.rows() == [*before, _row("e", 1, 50)]
    assert merged.orphan_files() == []
    assert merged.leftovers() == []


def test_executor_that_slept_publishes_nothing_and_leaves_no_file(merged: ScenarioTable) -> None:
    before = merged.rows()
    instant = scheduled(merged, "compaction")
    options = write_options({"sluice.writer.name": "sleeper"})

    with claim_plan(
        merged.table, options, instant, Action.COMPACTION, service="compaction"
    ) as claim:
        grows_cold(merged, instant)
        merged.table.ports.scheduler.stop_all()  # type: ignore[attr-defined]
        run(merged, "compaction")
        with pytest.raises((ServiceBusy, InstantRolledBack)):
            claim.finish(lambda _: b"never", files=[])

    assert merged.rows() == before
    assert merged.orphan_files() == []
    assert [state for _, state in merged.timeline()] == ["completed"] * 5


def test_plan_that_a_takeover_fenced_goes_and_a_new_one_is_made(merged: ScenarioTable) -> None:
    before = merged.rows()
    instant = scheduled(merged, "compaction")
    fence = RollbackDecision(by="takeover", nonce="n", reason="the lease ran out")
    decisions.decide(merged.storage, instant, fence)

    outcome = run(merged, "compaction")

    assert outcome.instant is not None
    assert outcome.instant > instant
    assert merged.table.timeline().find(instant) is None
    assert merged.rows() == before


def test_fenced_plan_is_refused_and_removed_by_its_executor(merged: ScenarioTable) -> None:
    instant = scheduled(merged, "compaction")
    fence = RollbackDecision(by="takeover", nonce="n", reason="the lease ran out")
    decisions.decide(merged.storage, instant, fence)

    with (
        pytest.raises(InstantRolledBack),
        claim_plan(merged.table, OPTIONS, instant, Action.COMPACTION, service="compaction"),
    ):
        pass

    assert merged.table.timeline().find(instant) is None


def test_compaction_planned_before_the_schema_grew_does_not_shrink_it(
    merged: ScenarioTable,
) -> None:
    """Cases E-06 and E-08."""
    scheduled(merged, "compaction")
    wider = pa.schema([*READINGS, pa.field("extra", pa.int64())])
    merged.writer("new").upsert_and_commit({**_row("e", 1, 50), "extra": 5}, schema=wider)

    outcome = run(merged, "compaction")

    assert merged.schema_columns()[-1] == "extra"
    assert outcome.instant is not None
    assert "extra" in (merged.metadata(outcome.instant).schema_json or "")
    assert [row["extra"] for row in merged.rows()] == [None, None, None, None, 5]


def test_logs_without_a_base_file_become_one(tables: ScenarioTables) -> None:
    table = tables(
        schema=READINGS,
        table_type="MERGE_ON_READ",
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    for ts in (1, 2):
        table.writer("nb", mode="non-blocking").upsert_and_commit(_row("a", ts, ts))
    before = table.rows()

    outcome = run(table, "compaction")

    assert table.rows() == before
    assert outcome.instant is not None
    [stat] = table.metadata(outcome.instant).stats
    assert (stat.prev_commit, stat.prev_base_file) == ("null", None)


def test_partial_updates_are_compacted_as_they_are_read(tables: ScenarioTables) -> None:
    table = tables(
        schema=READINGS,
        table_type="MERGE_ON_READ",
        ordering=["ts"],
        options={
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            "hoodie.bucket.index.num.buckets": "1",
        },
    )
    table.writer("whole").upsert_and_commit(_row("a", 1, 10, "first"))
    table.writer("values", stream="values").upsert_and_commit({"id": "a", "ts": 2, "value": 12})
    table.writer("notes", stream="notes").upsert_and_commit({"id": "a", "ts": 2, "note": "n"})
    before = table.rows()

    run(table, "compaction")

    assert table.rows() == before == [_row("a", 2, 12, "n")]


def test_plan_that_was_shown_is_the_plan_that_runs(merged: ScenarioTable) -> None:
    shown = plan(merged, "compaction")
    merged.writer("ingest").upsert_and_commit(_row("a", 5, 15))

    request = ServiceRequest("admin", expected_plan_hash=shown.plan_hash)
    with pytest.raises(PlanChanged):
        get_service("compaction").run(merged.table, request, OPTIONS)

    assert list(merged.table.timeline().pending()) == []


def test_copy_on_write_table_has_nothing_to_compact(table: ScenarioTable) -> None:
    table.writer("ingest").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert plan(table, "compaction").blockers
    with pytest.raises(ServiceRefused, match="no logs"):
        run(table, "compaction")


def test_instant_that_is_not_pending_is_refused(merged: ScenarioTable) -> None:
    instant = scheduled(merged, "compaction")
    run(merged, "compaction", {"instant": instant})

    with pytest.raises(ServiceRefused, match="no such plan"):
        run(merged, "compaction", {"instant": instant})


def test_misspelt_parameter_is_refused_by_name(merged: ScenarioTable) -> None:
    with pytest.raises(InvalidInput, match=r"hoodie\.compaction\.strategy"):
        plan(merged, "compaction", {"hoodie.compaction.stratgy": "Unbounded"})


def test_too_few_delta_commits_schedule_nothing(merged: ScenarioTable) -> None:
    due = {"hoodie.compact.inline.max.delta.commits": "4"}

    assert run(merged, "compaction", due).instant is None
    merged.writer("ingest").upsert_and_commit(_row("a", 5, 15))
    assert run(merged, "compaction", due).instant is not None
