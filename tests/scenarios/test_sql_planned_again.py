"""A competing writer adds a column while an UPDATE or a MERGE runs, or just before it begins: the
statement is planned again and keeps the column's values.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.test_deletes_beside_inserts import Beside
from tests.support.scenario_table import MODES, ScenarioTable, ScenarioTables, schema_of
from tests.support.watched_storage import At, WatchedStorage
from workers.concurrency.outcome import Committed
from workers.lakehouse import open_table
from workers.schema.alter import AddColumn
from workers.sql.run import run_sql

SCHEMA = schema_of(id=pa.string(), value=pa.int32(), note=pa.string())
SOURCE = pa.table({"id": ["a"]})
UPDATE = "UPDATE t SET note = 'new' WHERE value < 0"
MERGE = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = 'new'"
OPTIMISTIC = {
    "hoodie.write.markers.type": "direct",
    "hoodie.write.concurrency.mode": MODES["optimistic"],
    "sluice.writer.name": "slow",
}
EVOLVABILITY = {"hoodie.write.concurrency.schema.conflict.resolution.strategy": "evolvability"}
every_statement = pytest.mark.parametrize(
    "statement", [UPDATE, MERGE], ids=lambda text: text.split()[0]
)


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    made = tables(schema=SCHEMA, table_type=request.param)
    made.writer("setup").upsert_and_commit({"id": "a", "value": -1, "note": "old"})
    return made


def add_size(table: ScenarioTable) -> None:
    table.lakehouse.alter(AddColumn("size", pa.float64()), options={"sluice.writer.name": "fast"})
    changed = {"id": "a", "value": -2, "note": "old", "size": 1.5}
    schema = SCHEMA.append(pa.field("size", pa.float64()))
    table.writer("fast").upsert_and_commit(changed, schema=schema)


def run(handle: Any, statement: str, more: dict[str, str]) -> Any:
    return run_sql(statement, tables={"t": handle, "s": SOURCE}, options=OPTIMISTIC | more)


@every_statement
@pytest.mark.parametrize("more", [{}, EVOLVABILITY], ids=["simple", "evolvability"])
def test_a_statement_that_is_tried_again_keeps_a_column_that_was_added(
    table: ScenarioTable, monkeypatch: pytest.MonkeyPatch, statement: str, more: dict[str, str]
) -> None:
    Beside(monkeypatch)(lambda: add_size(table))
    retries = {"hoodie.write.num.retries.on.conflict.failures": "2"}

    outcome = run(table.lakehouse, statement, more | retries)

    assert isinstance(outcome, Committed)
    assert outcome.attempts == 2
    assert table.rows() == [{"id": "a", "value": -2, "note": "new", "size": 1.5}]


@pytest.mark.sampled(every=2)
@every_statement
def test_a_statement_keeps_a_column_that_was_added_between_its_plan_and_its_begin(
    table: ScenarioTable, statement: str
) -> None:
    come = At("read", ".locks/", lambda: add_size(table))
    storage = WatchedStorage(table.location, before=come)
    handle = open_table(table.location, ports=table.ports(), storage=storage)

    outcome = run(handle, statement, {})

    assert come.hits == 1
    assert isinstance(outcome, Committed)
    assert outcome.attempts == 1
    assert table.rows() == [{"id": "a", "value": -2, "note": "new", "size": 1.5}]
