"""SQL reads only files that its conditions cannot refute, and answers as if it had read all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import sqlglot

from workers.lakehouse import LakehouseTable, create_table
from workers.sql.checking import ReadableTable, check_select
from workers.sql.hints import find_hint
from workers.sql.run import run_sql

_WRITE = {"hoodie.write.markers.type": "direct"}
_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "city": pa.string(),
    "n": pa.int64(),
    "x": pa.float64(),
}
_SCHEMA = pa.schema(_TYPES)


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    """Forty rows in two partitions of four buckets; the greatest `x` is NaN."""
    rows = pa.table(
        {
            "id": [f"k{number}" for number in range(40)],
            "city": ["Oslo", "Rome"] * 20,
            "n": list(range(40)),
            "x": [float(number) for number in range(39)] + [float("nan")],
        },
        _SCHEMA,
    )
    table = create_table(
        tmp_path / "t",
        name="t",
        schema=rows.schema,
        record_key=["id"],
        partition_by=["city"],
        options={"hoodie.bucket.index.num.buckets": "4"},
    )
    table.write(rows, options=_WRITE)
    return table


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT * FROM t WHERE n > 3 AND city = 'Oslo'", "(n > 3) AND (city = 'Oslo')"),
        ("SELECT * FROM t AS a WHERE a.n IN (1, 2) AND a.n + 1 = 2", "(n IN (1, 2))"),
        ("SELECT * FROM t a LEFT JOIN u b ON a.id = b.id WHERE a.n = 1 AND b.n = 2", "(n = 1)"),
        ("SELECT max(n) FROM (SELECT n FROM t WHERE N < 5) s WHERE n > 1", "(n < 5)"),
        # A row that does not meet the condition may matter:
        ("SELECT * FROM t WHERE n = 1 OR x > 2", None),
        ("SELECT * FROM u LEFT JOIN t ON u.id = t.id WHERE t.n = 1", None),
        ("SELECT * FROM t RIGHT JOIN u ON u.id = t.id WHERE t.n = 1", None),
        ("SELECT * FROM t a JOIN t b ON a.id = b.id WHERE a.n = 1", None),
        ("SELECT * FROM t JOIN u ON u.id = t.id WHERE n = 1", None),
        ("SELECT city, count(*) FROM t GROUP BY city HAVING city = 'Oslo'", None),
        # The engine converts the column:
        ("SELECT * FROM t WHERE n = '1'", None),
        ("SELECT * FROM t WHERE city = 1", None),
        ("SELECT * FROM t WHERE n = (SELECT 1)", None),
    ],
)
def test_conditions_that_all_rows_of_a_query_meet_are_its_hint(
    query: str, hint: str | None
) -> None:
    result = find_hint([sqlglot.parse_one(query, dialect="spark")], "t", _SCHEMA)

    assert (result or "").replace('"', "") == (hint or "")


def test_a_query_does_not_open_files_that_its_condition_refutes(table: LakehouseTable) -> None:
    for group in table.file_groups():
        if group.partition == "Rome":
            (Path(table.location) / str(group.base_file)).unlink()

    rows = run_sql(
        "SELECT count(*) AS c FROM t WHERE city = 'Oslo' AND n >= 20", tables={"t": table}
    )

    assert rows.to_pylist() == [{"c": 10}]


def test_a_hint_leaves_the_filter_to_the_rules_of_the_engine(table: LakehouseTable) -> None:
    """NaN is the greatest number in DuckDB and in Spark."""
    rows = run_sql("SELECT count(*) AS c FROM t WHERE x > 36", tables={"t": table})

    assert rows.to_pylist() == [{"c": 3}]


def test_an_update_that_reads_its_target_again_reads_all_of_it(table: LakehouseTable) -> None:
    """The condition of the update is not one of the subquery."""
    run_sql("UPDATE t SET n = (SELECT max(n) FROM t) + 1 WHERE id = 'k1'", tables={"t": table})

    assert table.read(where="id = 'k1'").column("n").to_pylist() == [40]


def test_a_checked_statement_carries_the_hint_of_each_table() -> None:
    columns = {"id": "string", "n": "bigint"}
    readable = {"t": ReadableTable(columns, lambda name: name == "id")}

    checked = check_select("SELECT id FROM t WHERE n > 5", lambda _: readable)

    assert str(checked.tables["t"].hint).replace('"', "") == "(n > 5)"
