"""A statement that Spark computes and writes leaves the rows that it leaves without Spark."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.exact_conditions import CONDITIONS, ROWS
from tests.support.sql_statements import CASES, CHANGES, QUERIES, check, new_table
from workers import run_sql
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable

pytestmark = pytest.mark.spark

OPTIONS = {"hoodie.write.markers.type": "direct"}
GROUPS = json.dumps(
    [
        {"name": "a", "ordering": ["ts_a"], "columns": ["a1", "a2"]},
        {"name": "b", "ordering": ["ts_b"], "columns": ["b1"]},
    ]
)
STATEMENTS = (
    """INSERT INTO wide (k, day, ts_a, a1, a2)
       VALUES ('x', DATE '2026-01-01', 1, 1.5, 3), ('y', DATE '2026-01-02', 2, 2, NULL)""",
    """INSERT INTO wide (k, day, ts_b, b1)
       SELECT k, day, TIMESTAMP '2026-01-01 10:00:00Z', upper(k) FROM wide WHERE a1 > 1.7""",
    "UPDATE wide SET a1 = a1 / 2, a2 = coalesce(a2, 0) + 1 WHERE k IN ('x', 'y')",
    """MERGE INTO wide
       USING (SELECT k, day, a2 FROM wide UNION ALL SELECT 'z', DATE '2026-01-01', 8) s
       ON wide.k = s.k AND wide.day = s.day
       WHEN MATCHED AND s.k = 'x' THEN UPDATE SET a1 = s.a2, ts_a = 100
       WHEN NOT MATCHED THEN INSERT (k, day, ts_a, a1, a2) VALUES (s.k, s.day, 1, s.a2, 0)""",
    "UPDATE wide SET a1 = a1",
    "DELETE FROM wide WHERE b1 = 'Y'",
)


def made(where: Path) -> LakehouseTable:
    made = run_sql(f"""
        CREATE TABLE wide (k STRING PRIMARY KEY, day DATE, ts_a BIGINT, a1 DOUBLE, a2 INT,
          ts_b TIMESTAMP, b1 STRING) PARTITIONED BY (day) LOCATION '{where}'
        TBLPROPERTIES ('type' = 'mor', 'hoodie.bucket.index.num.buckets' = '2',
          'hoodie.multistream.groups' = '{GROUPS}')""")
    assert isinstance(made, LakehouseTable)
    return made


@pytest.mark.slow
def test_both_engines_leave_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    here, there = made(tmp_path / "here"), made(tmp_path / "there")
    for statement in STATEMENTS:
        ours = run_sql(statement, tables={"wide": here}, options=OPTIONS)
        theirs = run_sql(statement, tables={"wide": there}, options=OPTIONS, spark=spark)

        assert isinstance(ours, Committed), statement
        assert isinstance(theirs, Committed), statement
        assert ours.rows == theirs.rows, statement
        assert _sorted(there) == _sorted(here), statement
    assert [row["k"] for row in _sorted(there)] == ["x", "z"]
    assert [one.name for one in spark.catalog.listTables() if "sluice" in one.name] == []


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(every=2)
def test_statement_leaves_the_rows_that_it_leaves_without_spark(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    kind = "MERGE_ON_READ" if "merge" in name else "COPY_ON_WRITE"
    check(CASES[name], new_table(tmp_path / "t", kind), partial(run_sql, spark=spark))


@pytest.mark.slow
def test_queries_answer_a_frame_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "MERGE_ON_READ")
    for query, rows in QUERIES.values():
        frame = run_sql(query, tables={"t": table, "changes": CHANGES}, spark=spark)
        assert [tuple(row) for row in frame.collect()] == rows, query
    assert [one.name for one in spark.catalog.listTables() if "sluice" in one.name] == []


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE wide SET b1 = 'q'", "has no version of the group"),
        ("UPDATE wide SET a2 = a1", "say CAST: column=a2"),
        ("UPDATE wide SET a1 = nope", "cannot be computed"),
    ],
)
def test_what_is_wrong_is_said_by_name_and_changes_nothing(
    spark: SparkSession, tmp_path: Path, statement: str, why: str
) -> None:
    table = made(tmp_path / "wide")
    run_sql(STATEMENTS[0], tables={"wide": table}, options=OPTIONS)
    before = _sorted(table)

    with pytest.raises(InvalidInput, match=why):
        run_sql(statement, tables={"wide": table}, options=OPTIONS, spark=spark)

    assert _sorted(table) == before


def test_first_of_each_group_are_those_that_are_found_without_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = made(tmp_path / "wide")
    values = ", ".join(
        f"('k{n:02}', DATE '2026-01-0{n % 2 + 1}', {n % 3}, {score}, {n})"
        for n, score in enumerate(["5", "CAST('NaN' AS DOUBLE)", "NULL", "5", "7", "1", "5", "2"])
    )
    insert = f"INSERT INTO wide (k, day, ts_a, a1, a2) VALUES {values}"
    run_sql(insert, tables={"wide": table}, options=OPTIONS)

    rankings: list[tuple[list[str], str, int]] = [
        (["day"], "a1 desc", 3),
        (["ts_a"], "a1, a2 desc", 2),
        ([], "a1 desc", 3),
    ]
    for partition_by, order_by, n in rankings:
        here = table.top_n(partition_by, order_by, n, columns=["k"]).column("k").to_pylist()
        there = table.top_n(partition_by, order_by, n, columns=["k"], spark=spark).collect()
        assert sorted(row["k"] for row in there) == sorted(here), (partition_by, order_by)


def _sorted(table: LakehouseTable) -> list[dict[str, object]]:
    return sorted(table.read().to_pylist(), key=lambda row: str(row["k"]))


def test_numbers_are_compared_exactly(spark: SparkSession) -> None:
    answers = ", ".join(f"({one}) AS c{at}" for at, (one, _) in enumerate(CONDITIONS))

    rows = run_sql(f"SELECT id, {answers} FROM t", tables={"t": ROWS}, spark=spark).collect()

    for at, (condition, matching) in enumerate(CONDITIONS):
        assert sorted(row["id"] for row in rows if row[f"c{at}"]) == matching, condition
        assert [row["id"] for row in rows if row[f"c{at}"] is None] == [3], condition
