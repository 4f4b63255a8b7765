"""Clustering beside writers, compaction and its own dead executors."""

from __future__ import annotations

import pytest

from tests.scenarios.services import Died, dies_before_finishing, grows_cold, plan, run, scheduled
from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.errors import InvalidInput, PlanOvertaken, ServiceRefused
from workers.files.names import parse_bucket_number
from workers.read.snapshot import read_snapshot
from workers.table_services import rewrite_slice

BY_VALUE = {"hoodie.clustering.plan.strategy.sort.columns": "value"}


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def loose(tables: ScenarioTables, request: pytest.FixtureRequest) -> ScenarioTable:
    """Two buckets with rows in the order of arrival, and on merge-on-read a log each."""
    table = tables(
        schema=READINGS,
        table_type=request.param,
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    ingest = table.writer("ingest")
    ingest.upsert_and_commit(*(_row(str(key), 1, 100 - key) for key in range(20)))
    ingest.upsert_and_commit(*(_row(str(key), 2, 50 + key * 7 % 40) for key in range(0, 20, 2)))
    return table


def _row(key: str, ts: int, value: int | None) -> dict[str, object]:
    return {"id": key, "place": "p", "ts": ts, "value": value, "note": None}


def _scheduled(table: ScenarioTable) -> str:
    outcome = run(table, "clustering", {**BY_VALUE, "schedule_only": "true"})
    assert outcome.instant is not None
    return outcome.instant


def test_rows_stay_and_stand_sorted_in_new_file_groups(loose: ScenarioTable) -> None:
    before, old = loose.rows(), {one.file_id for one in loose.lakehouse.file_groups()}
    shown = plan(loose, "clustering", BY_VALUE)

    outcome = run(loose, "clustering", BY_VALUE)

    assert len(shown.items) == outcome.figures["file_groups"] == 2
    assert loose.rows() == before
    groups = loose.lakehouse.file_groups()
    assert not old & {one.file_id for one in groups}
    assert sorted(parse_bucket_number(one.file_id) or 0 for one in groups) == [0, 1]
    for name, values in _by_file(loose).items():
        assert values == sorted(values), name
    assert loose.timeline()[-1] == ("replacecommit", "completed")
    assert loose.leftovers() == []


@pytest.mark.parametrize("layout", ["linear", "z-order"])
def test_slices_too_large_to_sort_whole_end_as_the_small_ones_do(
    loose: ScenarioTable, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.setattr(rewrite_slice, "_SORTED_WHOLE_BYTES_MAX", 0)
    monkeypatch.setattr(rewrite_slice, "_SORTED_RANGE_BYTES", 300)
    before = loose.rows()
    parameters = {
        "hoodie.clustering.plan.strategy.sort.columns": "value,id",
        "hoodie.layout.optimize.strategy": layout,
    }

    run(loose, "clustering", parameters)

    assert loose.rows() == before
    if layout == "linear":
        assert all(values == sorted(values) for values in _by_file(loose).values())
    assert plan(loose, "clustering", parameters).items == ()


def _by_file(table: ScenarioTable) -> dict[str, list[int]]:
    values_of_file: dict[str, list[int]] = {}
    for row in read_snapshot(table.table, with_meta_columns=True).to_pylist():
        values_of_file.setdefault(row["_hoodie_file_name"], []).append(row["value"])
    return values_of_file


def test_rows_keep_their_commit_time(loose: ScenarioTable) -> None:
    kept = ["_hoodie_record_key", "_hoodie_commit_time", "_hoodie_commit_seqno"]
    before = read_snapshot(loose.table, with_meta_columns=True).select(kept)
    run(loose, "clustering", BY_VALUE)
    after = read_snapshot(loose.table, with_meta_columns=True).select(kept)

    assert after.sort_by(kept[0]) == before.sort_by(kept[0])


def test_writers_go_on_in_the_new_file_groups(loose: ScenarioTable) -> None:
    run(loose, "clustering", BY_VALUE)

    loose.writer("ingest").upsert_and_commit(_row("3", 9, 1), _row("new", 1, 2))

    values = {row["id"]: row["value"] for row in loose.rows()}
    assert (values["3"], values["new"]) == (1, 2)
    assert len(loose.lakehouse.file_groups()) == 2


def test_what_is_sorted_already_is_left_alone(loose: ScenarioTable) -> None:
    run(loose, "clustering", BY_VALUE)

    assert plan(loose, "clustering", BY_VALUE).is_empty
    assert run(loose, "clustering", BY_VALUE).instant is None
    other = {"hoodie.clustering.plan.strategy.sort.columns": "ts,value"}
    assert len(plan(loose, "clustering", other).items) == 2


def test_writer_that_was_faster_wins_and_the_plan_goes(loose: ScenarioTable) -> None:
    """Bug B17: never both succeed and lose rows."""
    instant = _scheduled(loose)
    loose.writer("fast").upsert_and_commit(_row("3", 9, 1))
    before = loose.rows()

    with pytest.raises(PlanOvertaken, match="writer=fast"):
        run(loose, "clustering", BY_VALUE)

    assert loose.rows() == before
    assert loose.table.timeline().find(instant) is None
    assert loose.orphan_files() == []
    assert loose.timeline()[-1] == ("rollback", "completed")
    run(loose, "clustering", BY_VALUE)
    assert loose.rows() == before


def test_writer_that_completes_while_rows_are_being_sorted_wins_too(loose: ScenarioTable) -> None:
    """Bug E1: the conflict is found although the inflight file is empty."""
    _scheduled(loose)

    def write(done: int, total: int) -> None:
        if done == total:
            loose.writer("fast").upsert_and_commit(_row("3", 9, 1))

    with pytest.raises(PlanOvertaken, match="written by another writer"):
        run(loose, "clustering", BY_VALUE, on_progress=write)

    assert {row["id"]: row["value"] for row in loose.rows()}["3"] == 1
    assert loose.orphan_files() == []


@pytest.mark.parametrize("mode", ["optimistic", "single"])
def test_writer_that_was_slower_loses(loose: ScenarioTable, mode: str) -> None:
    slow = loose.writer("slow", mode=mode).upsert(_row("3", 9, 1))
    before = loose.rows()
    outcome = run(loose, "clustering", BY_VALUE)

    conflict = slow.loses()

    assert conflict.rival == outcome.instant
    assert loose.rows() == before
    assert loose.orphan_files() == []


def test_compaction_and_clustering_keep_off_each_other(tables: ScenarioTables) -> None:
    table = tables(schema=READINGS, table_type="MERGE_ON_READ", ordering=["ts"])
    writer = table.writer("ingest")
    writer.upsert_and_commit(*(_row(str(key), 1, key) for key in range(30)))
    writer.upsert_and_commit(_row("3", 2, 1))
    compaction = scheduled(table, "compaction")

    shown = plan(table, "clustering", BY_VALUE)
    clustering = _scheduled(table)

    assert len(shown.items) == len(table.lakehouse.file_groups()) - 1
    assert plan(table, "compaction", {"schedule_only": "true"}).is_empty
    before = table.rows()
    assert run(table, "compaction").instant == compaction
    assert run(table, "clustering", BY_VALUE).instant == clustering
    assert table.rows() == before


def test_dead_executor_is_followed_by_another(
    loose: ScenarioTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, instant = loose.rows(), _scheduled(loose)
    with dies_before_finishing(monkeypatch), pytest.raises(Died):
        run(loose, "clustering", BY_VALUE)
    grows_cold(loose, instant)

    assert run(loose, "clustering", BY_VALUE).instant == instant

    assert loose.rows() == before
    # What was replaced stays for readers who are still there, until it is cleaned.
    assert loose.orphan_files() == []


def test_pending_plan_may_be_rolled_back_by_a_person(loose: ScenarioTable) -> None:
    before, instant = loose.rows(), _scheduled(loose)

    loose.lakehouse.rollback(instant, dry_run=False, reason="not now")

    assert loose.table.timeline().find(instant) is None
    assert loose.rows() == before
    assert len(plan(loose, "clustering", BY_VALUE).items) == 2


def test_order_in_which_nothing_can_be_sorted_is_refused(loose: ScenarioTable) -> None:
    key = "hoodie.clustering.plan.strategy.sort.columns"

    assert plan(loose, "clustering", {key: "nothing"}).blockers
    assert plan(loose, "clustering").blockers
    with pytest.raises(ServiceRefused, match="not in the table"):
        run(loose, "clustering", {key: "nothing"})
    with pytest.raises(InvalidInput, match="unknown layout"):
        plan(loose, "clustering", {**BY_VALUE, "hoodie.layout.optimize.strategy": "hilbert"})


def test_z_order_is_one_of_the_layouts(loose: ScenarioTable) -> None:
    before = loose.rows()
    parameters = {
        "hoodie.clustering.plan.strategy.sort.columns": "value,id",
        "hoodie.layout.optimize.strategy": "z-order",
    }

    run(loose, "clustering", parameters)

    assert loose.rows() == before
    assert plan(loose, "clustering", parameters).is_empty


def test_only_the_partitions_asked_for_are_sorted(tables: ScenarioTables) -> None:
    table = tables(schema=READINGS, ordering=["ts"], partition_by=["place"])
    rows = [{**_row(str(key), 1, -key), "place": "pq"[key % 2]} for key in range(10)]
    table.writer("ingest").upsert_and_commit(*rows)

    only_p = {**BY_VALUE, "hoodie.clustering.plan.strategy.partition.selected": "p"}
    items = plan(table, "clustering", only_p).items

    assert items
    assert all(item.what.startswith("p/") for item in items)
