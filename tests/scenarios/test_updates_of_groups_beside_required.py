"""UPDATE and MERGE of a group in a table whose rows require columns of no group. Nothing is written
back that another stream may change meanwhile; but a row that was deleted must not come back without
what it requires, so a non-blocking writer loses to whoever deleted something of one of its rows.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.test_deletes_beside_inserts import Beside
from tests.support.scenario_table import MODES, Row, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed, Conflicted
from workers.schema.alter import RequireColumn
from workers.sql.run import run_sql

FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.string(), nullable=False),
    pa.field("city", pa.string()),
    pa.field("note", pa.string()),
    pa.field("ts", pa.int64()),
    pa.field("clicked_at", pa.int64()),
    pa.field("x", pa.int64()),
]
GROUPS = [{"name": "click", "ordering": ["clicked_at"], "columns": ["x"], "delete": "row"}]
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": "1"}
UPDATE = "UPDATE t SET x = 2, clicked_at = 20 WHERE id = 'a'"
MATCHED = (
    "MERGE INTO t USING s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET x = s.x, clicked_at = s.clicked_at"
)
BOTH = (
    f"{MATCHED} WHEN NOT MATCHED THEN INSERT (id, city, ts, x, clicked_at) "
    "VALUES (s.id, 'Rome', 30, s.x, s.clicked_at)"
)
STATEMENTS = pytest.mark.parametrize(
    "statement", [UPDATE, MATCHED, BOTH], ids=["UPDATE", "MERGE of rows", "MERGE with INSERT"]
)
SOURCE = pa.table({"id": ["a", "c"], "x": [2, 3], "clicked_at": [20, 20]})


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    return made(tables, ordering=["ts"])


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    return Beside(monkeypatch)


def made(tables: ScenarioTables, ordering: list[str], delete: str = "row") -> ScenarioTable:
    groups = [{**one, "delete": delete} for one in GROUPS]
    table = tables(
        table_type="MERGE_ON_READ",
        schema=pa.schema(FIELDS),
        ordering=ordering,
        options={"hoodie.multistream.groups": json.dumps(groups)},
    )
    writer = table.writer("setup", mode="non-blocking")
    writer.upsert_and_commit(row("a"), row("b"))
    assert isinstance(table.lakehouse.alter(RequireColumn("city")), Committed)
    return table


def row(key: str) -> Row:
    return {"id": key, "city": "Oslo", "note": "n", "ts": 1, "clicked_at": 10, "x": 1}


def run(table: ScenarioTable, statement: str, mode: str, more: dict[str, str] | None = None) -> Any:
    given = {
        "hoodie.write.markers.type": "direct",
        "hoodie.write.concurrency.mode": MODES[mode],
        "sluice.writer.name": "slow",
    }
    return run_sql(
        statement, tables={"t": table.lakehouse, "s": SOURCE}, options=given | (more or {})
    )


def by_key(table: ScenarioTable) -> dict[str, Row]:
    return {one["id"]: one for one in table.rows()}


def fast(table: ScenarioTable) -> Any:
    return table.writer("fast", mode="non-blocking")


@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
@STATEMENTS
def test_a_group_is_changed_and_what_is_required_stays_as_others_write_it(
    table: ScenarioTable, beside: Beside, statement: str, mode: str
) -> None:
    """A city of an age that is the row's or newer counts, whenever it comes."""
    is_beside = mode == "non-blocking"
    change = {"id": "a", "city": "Bergen", "ts": 1}
    if is_beside:
        beside(lambda: fast(table).upsert_and_commit(change))

    outcome = run(table, statement, mode)

    assert isinstance(outcome, Committed), outcome
    if not is_beside:
        fast(table).upsert_and_commit(change)
    rows = by_key(table)
    assert (rows["a"]["city"], rows["a"]["note"], rows["a"]["x"]) == ("Bergen", "n", 2)
    assert ("c" in rows) == (statement == BOTH)
    if statement == BOTH:
        assert (rows["c"]["city"], rows["c"]["x"]) == ("Rome", 3)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("how", ["by key", "by a mark", "by a mark with a row behind it"])
@STATEMENTS
def test_a_row_that_was_deleted_meanwhile_does_not_come_back_without_what_it_requires(
    table: ScenarioTable, beside: Beside, statement: str, how: str
) -> None:
    beside(lambda: delete(table, how))

    outcome = run(table, statement, "non-blocking")

    assert isinstance(outcome, Conflicted), outcome
    conflict = outcome.conflict
    assert (conflict.rule, conflict.keys, conflict.rival_writer) == (
        "changed_since_read",
        ("a",),
        "fast",
    )
    assert table.orphan_files() == []
    assert all(one["city"] is not None for one in table.rows())
    beside(lambda: delete(table, how))
    assert isinstance(run(table, statement, "non-blocking", RETRIES), Committed)
    assert all(one["city"] is not None for one in table.rows())


def delete(table: ScenarioTable, how: str) -> None:
    if how == "by key":
        given = {
            "hoodie.write.markers.type": "direct",
            "hoodie.write.concurrency.mode": MODES["non-blocking"],
            "sluice.writer.name": "fast",
        }
        table.lakehouse.delete(pa.table({"id": ["a"]}), options=given)
        return
    nothing = {"city": None, "ts": None, "x": None}
    rows: list[Row] = [{"id": "a", "clicked_at": 15, **nothing, "_hoodie_is_deleted": True}]
    if how != "by a mark":
        new = {"id": "a", "city": "Bergen", "ts": 16, "clicked_at": 16, "x": 6}
        rows.append({**new, "_hoodie_is_deleted": False})
    fast(table).upsert_and_commit(*rows)


def test_without_ages_what_new_rows_bring_is_said_again_and_loses_to_changes(
    tables: ScenarioTables, beside: Beside
) -> None:
    table = made(tables, ordering=[], delete="group")
    statement = BOTH.replace("city, ts,", "city,").replace("'Rome', 30,", "'Rome',")
    beside(lambda: fast(table).upsert_and_commit({"id": "a", "city": "Bergen"}))

    outcome = run(table, statement, "non-blocking", RETRIES)

    assert isinstance(outcome, Committed), outcome
    rows = by_key(table)
    assert outcome.attempts == 2
    assert (rows["a"]["city"], rows["a"]["x"], rows["c"]["city"]) == ("Bergen", 2, "Rome")
