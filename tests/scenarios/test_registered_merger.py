"""A table whose versions are folded by a function that the user registered."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables, schema_of
from workers import register_merger
from workers.errors import InvalidInput, UnsupportedTable
from workers.lakehouse import open_table
from workers.merge.rule import MergeRule

COUNTERS = schema_of(id=pa.string(), hits=pa.int64())
OPTIONS = {"hoodie.record.merge.mode": "CUSTOM", "sluice.record.merger": "test-summing-hits"}


def summing_hits(older: pa.Table, newer: pa.Table) -> pa.Table:
    columns: list[Any] = [older.column("hits"), newer.column("hits")]
    return newer.set_column(newer.column_names.index("hits"), "hits", pc.add(*columns))


register_merger("test-summing-hits", summing_hits)


def counters(tables: ScenarioTables, kind: str) -> ScenarioTable:
    table = tables(schema=COUNTERS, table_type=kind, options=OPTIONS)
    table.excuse_referee("hudi-rs does not know the merger")
    return table


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_of_one_key_are_folded_within_batches_and_across_commits(
    tables: ScenarioTables, kind: str
) -> None:
    table = counters(tables, kind)
    writer = table.writer("hits")

    writer.upsert_and_commit({"id": "a", "hits": 1}, {"id": "a", "hits": 2}, {"id": "b", "hits": 5})
    writer.upsert_and_commit({"id": "a", "hits": 10})
    writer.upsert_and_commit({"id": "b", "hits": 1}, {"id": "a", "hits": 100})

    assert table.rows() == [{"id": "a", "hits": 113}, {"id": "b", "hits": 6}]


def test_compaction_folds_as_reading_does(tables: ScenarioTables) -> None:
    table = counters(tables, "MERGE_ON_READ")
    writer = table.writer("hits")
    for hits in (1, 10, 100):
        writer.upsert_and_commit({"id": "a", "hits": hits})

    open_table(table.location, ports=table.ports()).compact()

    assert [one.log_files for one in open_table(table.location).file_groups()] == [()]
    assert table.rows() == [{"id": "a", "hits": 111}]


def test_rule_travels_to_executors_with_its_function() -> None:
    rule = MergeRule("ts", merger=summing_hits)

    assert pickle.loads(pickle.dumps(rule)) == rule


def test_table_with_a_merger_that_nobody_registered_is_refused(tables: ScenarioTables) -> None:
    with pytest.raises(UnsupportedTable, match="not registered"):
        tables(schema=COUNTERS, options=OPTIONS | {"sluice.record.merger": "nobody"})


def test_merger_without_its_mode_and_mode_without_its_merger_are_refused(
    tables: ScenarioTables,
) -> None:
    for name, value in OPTIONS.items():
        with pytest.raises(InvalidInput, match="go together"):
            tables(schema=COUNTERS, options={name: value})
