"""A schema change is rolled back while files are written under it: they are not committed, because
the table could not be read any longer.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.services import run
from tests.scenarios.test_deletes_beside_inserts import OPTIMISTIC, RETRIES, Beside
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import ServiceBusy
from workers.schema.alter import AddColumn, SchemaChange, WidenColumn
from workers.sql.run import run_sql

CHANGES = (WidenColumn("value", pa.int64()), AddColumn("unit", pa.string()))


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    return Beside(monkeypatch)


def row(key: str, value: int, ts: int = 1) -> Row:
    return {"id": key, "place": "oslo", "ts": ts, "value": value, "note": None}


def filled(tables: ScenarioTables, table_type: str) -> ScenarioTable:
    table = tables(
        table_type=table_type,
        schema=READINGS,
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    table.writer("setup").upsert_and_commit(row("a", 5), row("b", 60))
    return table


def altered(table: ScenarioTable, change: SchemaChange) -> str:
    outcome = table.lakehouse.alter(change)
    assert isinstance(outcome, Committed)
    return outcome.instant


def delete(table: ScenarioTable, way: str, options: dict[str, str]) -> Any:
    if way == "keys":
        return table.lakehouse.delete(pa.table({"id": ["b"]}), options=options)
    if way == "predicate":
        return table.lakehouse.delete(predicate="value > 50", options=options)
    return run_sql("DELETE FROM t WHERE value > 50", tables={"t": table.lakehouse}, options=options)


@pytest.mark.parametrize("change", CHANGES, ids=["widened", "added"])
@pytest.mark.parametrize("way", ["keys", "predicate", "statement"])
def test_a_delete_whose_files_have_the_undone_schema_loses_and_wins_when_tried_again(
    tables: ScenarioTables, beside: Beside, way: str, change: SchemaChange
) -> None:
    table = filled(tables, "COPY_ON_WRITE")
    instant = altered(table, change)

    beside(lambda: table.lakehouse.rollback(instant, dry_run=False, reason="test"))
    outcome = delete(table, way, OPTIMISTIC)

    assert isinstance(outcome, Conflicted), outcome
    assert (outcome.conflict.rule, outcome.conflict.rival) == ("taken_back", instant)
    again = altered(table, change)
    beside(lambda: table.lakehouse.rollback(again, dry_run=False, reason="test"))
    assert isinstance(delete(table, way, OPTIMISTIC | RETRIES), Committed)
    table.writer("later").upsert_and_commit(row("c", 7))
    assert table.rows() == [row("a", 5), row("c", 7)]


def test_a_delete_beside_the_rollback_of_rows_that_changed_no_schema_commits(
    tables: ScenarioTables, beside: Beside
) -> None:
    table = tables(schema=READINGS, ordering=["ts"], partition_by=["place"])
    table.writer("setup").upsert_and_commit(row("a", 5))
    elsewhere = table.writer("other").upsert_and_commit({**row("z", 1), "place": "rome"})

    beside(lambda: table.lakehouse.rollback(elsewhere.instant, dry_run=False, reason="test"))
    keys = pa.table({"id": ["a"], "place": ["oslo"]})

    assert isinstance(table.lakehouse.delete(keys, options=OPTIMISTIC), Committed)
    assert table.rows() == []


@pytest.mark.parametrize("change", CHANGES, ids=["widened", "added"])
@pytest.mark.parametrize("name", ["compaction", "clustering"])
def test_a_service_whose_files_have_the_undone_schema_starts_again(
    tables: ScenarioTables, name: str, change: SchemaChange
) -> None:
    table = filled(tables, "MERGE_ON_READ")
    table.writer("update").upsert_and_commit(row("a", 6, ts=2))
    instant = altered(table, change)

    def undo(done: int, total: int) -> None:
        if done == total and table.table.timeline().find(instant) is not None:
            table.lakehouse.rollback(instant, dry_run=False, reason="test")

    sorting = {"hoodie.clustering.plan.strategy.sort.columns": "value"}
    with pytest.raises(ServiceBusy, match="schema"):
        run(table, name, sorting if name == "clustering" else {}, on_progress=undo)

    expected = [row("a", 6, ts=2), row("b", 60)]
    assert table.rows() == expected
    run(table, name, sorting if name == "clustering" else {})
    table.writer("later").upsert_and_commit(row("c", 7))
    assert table.rows() == [*expected, row("c", 7)]
