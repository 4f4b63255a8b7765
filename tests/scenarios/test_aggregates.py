"""What aggregates of column groups show at the edges: sums beyond their type."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.services import run
from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, schema_of
from workers.errors import SumOverflow

LONG_MAX = (1 << 63) - 1
DIRECT = {"hoodie.write.markers.type": "direct"}
EDGES = [(pa.int64(), LONG_MAX), (pa.decimal128(38, 2), Decimal("9" * 36 + ".99"))]


def counting(tables: ScenarioTables, table_type: str, kind: pa.DataType) -> ScenarioTable:
    group = {"name": "spent", "ordering": ["at"], "columns": ["n"], "aggregates": {"n": "sum"}}
    return tables(
        table_type=table_type,
        schema=schema_of(id=pa.string(), at=pa.int64(), n=kind),
        options={
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.multistream.groups": json.dumps([group]),
        },
    )


def spent(key: str, at: int, n: Any) -> Row:
    return {"id": key, "at": at, "n": n}


def write(table: ScenarioTable, *rows: Row) -> None:
    table.lakehouse.write(table.batch(rows), options=DIRECT)


def assert_named(refused: pytest.ExceptionInfo[SumOverflow]) -> None:
    values = refused.value.values
    assert (values["column"], values["key"], values["keys"]) == ("n", "k", 1)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(("kind", "most"), EDGES, ids=["long", "decimal"])
def test_a_batch_whose_sum_is_beyond_its_column_is_refused(
    tables: ScenarioTables, table_type: str, kind: pa.DataType, most: Any
) -> None:
    table = counting(tables, table_type, kind)
    write(table, spent("other", 1, 1))

    with pytest.raises(SumOverflow) as refused:
        write(table, spent("k", 1, most), spent("k", 2, most), spent("other", 2, 1))

    assert_named(refused)
    assert table.rows("id", "n") == [{"id": "other", "n": 1}]
    assert table.orphan_files() == table.leftovers() == []


@pytest.mark.parametrize(("kind", "most"), EDGES, ids=["long", "decimal"])
def test_a_write_that_would_make_the_sum_too_great_is_refused_where_it_merges(
    tables: ScenarioTables, kind: pa.DataType, most: Any
) -> None:
    table = counting(tables, "COPY_ON_WRITE", kind)
    write(table, spent("k", 1, most))

    with pytest.raises(SumOverflow) as refused:
        write(table, spent("k", 2, 1))

    assert_named(refused)
    write(table, spent("k", 2, -1))
    write(table, spent("k", 3, 1))
    assert table.rows("id", "n") == [{"id": "k", "n": most}]


@pytest.mark.parametrize(("kind", "most"), EDGES, ids=["long", "decimal"])
def test_logs_whose_sum_is_too_great_are_neither_read_nor_compacted_until_the_key_is_deleted(
    tables: ScenarioTables, kind: pa.DataType, most: Any
) -> None:
    table = counting(tables, "MERGE_ON_READ", kind)
    write(table, spent("k", 1, most), spent("other", 1, 1))
    write(table, spent("k", 2, 1), spent("other", 2, 2))

    with pytest.raises(SumOverflow) as refused:
        table.rows()
    assert_named(refused)
    with pytest.raises(SumOverflow):
        run(table, "compaction")
    write(table, spent("k", 3, -1))
    assert table.rows("id", "n") == [{"id": "k", "n": most}, {"id": "other", "n": 3}]

    write(table, spent("k", 4, 1))
    table.lakehouse.delete(pa.table({"id": ["k"]}), options=DIRECT)
    write(table, spent("k", 1, 5))
    assert table.rows("id", "n") == [{"id": "k", "n": 5}, {"id": "other", "n": 3}]
