"""Two cases of concurrent schemas (requirements 2.3) that need an admin or a foreign engine."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTables, schema_of
from tests.support.table_services import run
from workers.clock import next_instant
from workers.table.table import Table
from workers.timeline.instant import Action
from workers.timeline.metadata import SCHEMA_KEY, CommitMetadata

S1 = schema_of(id=pa.int64(), city=pa.string())
S2 = schema_of(id=pa.int64(), city=pa.string(), size=pa.int64())


@pytest.mark.parametrize("mode", ["single", "optimistic"])
def test_e20_writer_open_across_a_restore_to_before_the_evolution_is_told_and_loses_no_column(
    tables: ScenarioTables, mode: str
) -> None:
    """T0 = W = S2, T1 = S1: RFC-82's row 6 would commit its rows and drop `size` silently."""
    table = tables(schema=S1)
    goal = table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    table.writer("evolver").upsert_and_commit({"id": 2, "city": "Rome", "size": 2}, schema=S2)
    open_ = table.writer("open", mode=mode).upsert({"id": 3, "city": "Lima", "size": 3}, schema=S2)

    run(table.table, "restore", instant=goal.instant)

    open_.is_told_rolled_back()
    assert table.schema_columns() == ["id", "city"]
    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    open_.upsert_and_commit({"id": 3, "city": "Lima", "size": 3}, schema=S2)
    assert table.rows()[1] == {"id": 3, "city": "Lima", "size": 3}


def test_e24_writer_open_across_a_reordering_of_columns_commits_under_the_new_order(
    tables: ScenarioTables,
) -> None:
    """Only a foreign engine reorders: ALTER TABLE ... AFTER, here as the commit that it makes."""
    table = tables(schema=S2)
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo", "size": 1})
    open_ = table.writer("open").upsert({"id": 2, "city": "Rome", "size": 2})
    schema = json.loads(table.metadata(table.instants()[1].requested_at).extra_metadata[SCHEMA_KEY])
    schema["fields"] = [schema["fields"][at] for at in (0, 2, 1)]
    _foreign_alter(table.table, json.dumps(schema))

    committed = open_.wins()

    text = table.metadata(committed.instant).extra_metadata[SCHEMA_KEY]
    assert [field["name"] for field in json.loads(text)["fields"]] == ["id", "size", "city"]
    assert table.schema_columns() == ["id", "size", "city"]
    assert table.rows("id", "city", "size") == [
        {"id": 1, "city": "Oslo", "size": 1},
        {"id": 2, "city": "Rome", "size": 2},
    ]


def _foreign_alter(table: Table, schema_json: str) -> None:
    content = CommitMetadata({}, {SCHEMA_KEY: schema_json}, "ALTER_SCHEMA").encode(Action.COMMIT)
    requested = next_instant(table.ports.clock, table.timeline().last_time)
    completed = next_instant(table.ports.clock, requested)
    for name in (f"{requested}.commit.requested", f"{requested}.inflight"):
        table.storage.put(f".hoodie/timeline/{name}", b"")
    table.storage.put(f".hoodie/timeline/{requested}_{completed}.commit", content)
