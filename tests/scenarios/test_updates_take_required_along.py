"""UPDATE and MERGE of some columns in a table that takes narrow rows: what the table requires goes
along, because Apache Hudi reads no log block that lacks it. What goes along was read before, so a
non-blocking writer loses to whoever changed one of the rows since.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.test_deletes_beside_inserts import Beside
from tests.support.scenario_table import MODES, Row, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed, Conflicted
from workers.files.log_block import ParquetData
from workers.files.log_file import read_log_file
from workers.spark.placement import stage_prepared
from workers.sql.run import run_sql
from workers.write.prepare import prepare
from workers.write.read_set import collect_read_keys

FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.string(), nullable=False),
    pa.field("city", pa.string(), nullable=False),
    pa.field("size", pa.int32()),
    pa.field("note", pa.string()),
]
SCHEMA = pa.schema(FIELDS)
PARTIAL = {
    "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": "1"}
UPDATE = "UPDATE t SET size = 2 WHERE id = 'a'"
MERGE = (
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET size = s.size "
    "WHEN NOT MATCHED THEN INSERT (id, city, size) VALUES (s.id, 'Rome', s.size)"
)
SOURCE = pa.table({"id": ["a", "c"], "size": pa.array([2, 3], pa.int32())})


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    made = tables(table_type="MERGE_ON_READ", schema=SCHEMA, options=PARTIAL)
    made.writer("setup").upsert_and_commit(row("a", "Oslo"), row("b", "Oslo"))
    return made


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    return Beside(monkeypatch)


def row(key: str, city: str) -> Row:
    return {"id": key, "city": city, "size": 1, "note": "first"}


def run(table: ScenarioTable, statement: str, mode: str, more: dict[str, str] | None = None) -> Any:
    given = {
        "hoodie.write.markers.type": "direct",
        "hoodie.write.concurrency.mode": MODES[mode],
        "sluice.writer.name": "slow",
    }
    return run_sql(
        statement, tables={"t": table.lakehouse, "s": SOURCE}, options=given | (more or {})
    )


def fast(table: ScenarioTable) -> Any:
    return table.writer("fast", mode="non-blocking")


@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
@pytest.mark.parametrize("statement", [UPDATE, MERGE], ids=["UPDATE", "MERGE"])
def test_required_columns_go_along_and_others_stay_out_of_the_log(
    table: ScenarioTable, statement: str, mode: str
) -> None:
    before = set(table.listing())

    assert isinstance(run(table, statement, mode), Committed)

    added = [path for path in set(table.listing()) - before if ".log." in path]
    logs = [path for path in added if not path.startswith(".hoodie")]
    blocks = [block for path in logs for block in read_log_file(table.storage, path)]
    named = [one.field_names for one in blocks if isinstance(one, ParquetData)]
    assert named
    assert all("city" in names and "note" not in names for names in named)
    expected = [row("a", "Oslo") | {"size": 2}, row("b", "Oslo")]
    if statement == MERGE:
        expected.append({"id": "c", "city": "Rome", "size": 3, "note": None})
    assert table.rows() == expected


@pytest.mark.parametrize("statement", [UPDATE, MERGE], ids=["UPDATE", "MERGE"])
def test_a_row_that_was_changed_since_is_a_conflict_and_tried_again_keeps_the_change(
    table: ScenarioTable, beside: Beside, statement: str
) -> None:
    beside(lambda: fast(table).upsert_and_commit({"id": "a", "city": "Bergen"}))

    outcome = run(table, statement, "non-blocking")

    assert isinstance(outcome, Conflicted), outcome
    conflict = outcome.conflict
    assert (conflict.rule, conflict.keys) == ("changed_since_read", ("a",))
    assert conflict.rival_writer == "fast"
    assert table.orphan_files() == []
    beside(lambda: fast(table).upsert_and_commit({"id": "a", "city": "Turku"}))
    assert isinstance(run(table, statement, "non-blocking", RETRIES), Committed)
    [changed] = [one for one in table.rows() if one["id"] == "a"]
    assert (changed["city"], changed["size"]) == ("Turku", 2)


def test_a_row_that_was_deleted_since_does_not_come_back_in_half(
    table: ScenarioTable, beside: Beside
) -> None:
    beside(lambda: run_delete(table, "a"))

    outcome = run(table, UPDATE, "non-blocking", RETRIES)

    assert isinstance(outcome, Committed)
    assert (outcome.attempts, outcome.rows) == (2, 0)
    assert table.rows() == [row("b", "Oslo")]


def run_delete(table: ScenarioTable, key: str) -> None:
    given = {
        "hoodie.write.markers.type": "direct",
        "hoodie.write.concurrency.mode": MODES["non-blocking"],
    }
    table.lakehouse.delete(pa.table({"id": [key]}), options=given)


def test_rows_of_others_that_were_changed_since_disturb_nobody(
    table: ScenarioTable, beside: Beside
) -> None:
    beside(lambda: fast(table).upsert_and_commit({"id": "b", "city": "Bergen"}))

    outcome = run(table, UPDATE, "non-blocking")

    assert isinstance(outcome, Committed)
    assert table.rows("id", "city", "size") == [
        {"id": "a", "city": "Oslo", "size": 2},
        {"id": "b", "city": "Bergen", "size": 1},
    ]


def test_an_update_of_all_that_is_required_reads_nothing_and_never_loses(
    table: ScenarioTable, beside: Beside
) -> None:
    beside(lambda: fast(table).upsert_and_commit({"id": "a", "city": "Bergen"}))

    outcome = run(table, "UPDATE t SET size = 2, city = 'Rome' WHERE id = 'a'", "non-blocking")

    assert isinstance(outcome, Committed)
    [changed] = [one for one in table.rows() if one["id"] == "a"]
    assert (changed["city"], changed["size"]) == ("Rome", 2)


def test_rows_that_tasks_staged_are_guarded_as_those_in_memory(table: ScenarioTable) -> None:
    rows = table.batch([row(key, "Oslo") for key in "abc"])
    begun = table.writer("w", mode="non-blocking").begin(rows.schema).transaction
    context = replace(begun.context, keeps_read_rows=True)
    prepared = prepare(context, rows)
    staged = [stage_prepared(context, prepared.slice(1), table.storage, "0")]

    sought = collect_read_keys(context, prepared.slice(0, 1), staged, table.storage)

    assert sought is not None
    sought_keys = list(sought())
    assert sorted(key for one in sought_keys for key in one.keys) == ["a", "b", "c"]
    assert all(one.were_read for one in sought_keys)
    begun.abort("nothing is to be written")
