"""One suite of statements for both engines: what each leaves behind, and what a query answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from workers import create_table, run_sql
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable

Row = tuple[Any, ...]
OPTIONS = {"hoodie.write.markers.type": "direct"}
_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "city": pa.string(),
    "n": pa.int32(),
    "at": pa.int64(),
}
SCHEMA = pa.schema(_TYPES)
CHANGES = pa.table(
    {
        "id": pa.array([1, 2, 4, 5], pa.int64()),
        "city": ["Oslo!", "Rome!", "Lima!", "Bern!"],
        "n": pa.array([10, None, 40, 50], pa.int32()),
        "at": pa.array([9, 9, 9, 9], pa.int64()),
        "op": ["U", "D", "I", "D"],
    }
)
STANDING: list[Row] = [(1, "Oslo", 1, 5), (2, "Rome", 2, 5), (3, "Paris", 3, 5)]
_STAR = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


@dataclass(frozen=True, slots=True)
class Case:
    statement: str
    rows: list[Row]
    """Of the table afterwards, by its columns in their order, sorted by the first."""
    columns: tuple[str, ...] = tuple(_TYPES)


CASES: dict[str, Case] = {
    "merge star from a subquery": Case(
        f"""MERGE INTO t USING (SELECT id, city, n, at FROM changes WHERE op <> 'D') s
            ON t.id = s.id {_STAR}""",
        [(1, "Oslo!", 10, 9), STANDING[1], STANDING[2], (4, "Lima!", 40, 9)],
    ),
    "merge star from a subquery that computes": Case(
        f"""MERGE INTO t USING (SELECT id, concat(upper(city), '?') AS city, n + 1 AS n, at
            FROM t WHERE id < 3) s ON t.id = s.id {_STAR}""",
        [(1, "OSLO?", 2, 5), (2, "ROME?", 3, 5), STANDING[2]],
    ),
    "merge from arrow rows": Case(
        """MERGE INTO t USING changes AS s ON t.id = s.id
           WHEN MATCHED THEN UPDATE SET city = s.city, at = s.at
           WHEN NOT MATCHED AND s.op = 'I' THEN INSERT (id, city, n, at)
             VALUES (s.id, s.city, s.n, s.at)""",
        [(1, "Oslo!", 1, 9), (2, "Rome!", 2, 9), STANDING[2], (4, "Lima!", 40, 9)],
    ),
    "merge that only deletes": Case(
        "MERGE INTO t USING changes s ON t.id = s.id WHEN MATCHED THEN DELETE",
        [STANDING[2]],
    ),
    "merge that deletes where a condition holds": Case(
        "MERGE INTO t USING changes s ON t.id = s.id WHEN MATCHED AND s.op = 'D' THEN DELETE",
        [STANDING[0], STANDING[2]],
    ),
    "merge of changes with deletes": Case(
        """MERGE INTO t USING changes s ON t.id = s.id
           WHEN MATCHED AND s.op = 'D' THEN DELETE
           WHEN MATCHED THEN UPDATE SET city = s.city, n = s.n, at = s.at
           WHEN NOT MATCHED AND s.op <> 'D' THEN INSERT (id, city, n, at)
             VALUES (s.id, s.city, s.n, s.at)""",
        [(1, "Oslo!", 10, 9), STANDING[2], (4, "Lima!", 40, 9)],
    ),
    "merge whose update comes first": Case(
        """MERGE INTO t USING changes s ON t.id = s.id
           WHEN MATCHED AND s.n IS NULL THEN UPDATE SET city = 'kept'
           WHEN MATCHED THEN DELETE""",
        [(2, "kept", 2, 5), STANDING[2]],
    ),
    "merge whose delete has a null condition": Case(
        """MERGE INTO t USING changes s ON t.id = s.id
           WHEN MATCHED AND s.n > 5 THEN DELETE
           WHEN MATCHED THEN UPDATE SET city = 'kept'""",
        [(2, "kept", 2, 5), STANDING[2]],
    ),
    "insert from arrow rows": Case(
        "INSERT INTO t SELECT id, city, n, at FROM changes WHERE op = 'I'",
        [*STANDING, (4, "Lima!", 40, 9)],
    ),
    "update": Case(
        "UPDATE t SET n = n * 2, city = concat(city, '!') WHERE id = 3",
        [*STANDING[:2], (3, "Paris!", 6, 5)],
    ),
    "delete": Case("DELETE FROM t WHERE city LIKE '%o%'", [STANDING[2]]),
    "add a column": Case(
        "ALTER TABLE t ADD COLUMN note STRING",
        [(*row, None) for row in STANDING],
        (*_TYPES, "note"),
    ),
    "add columns": Case(
        "ALTER TABLE t ADD COLUMNS (note STRING, tags ARRAY<INT>)",
        [(*row, None, None) for row in STANDING],
        (*_TYPES, "note", "tags"),
    ),
    "drop a column": Case(
        "ALTER TABLE t DROP COLUMN n",
        [(row[0], row[1], row[3]) for row in STANDING],
        ("id", "city", "at"),
    ),
    "rename a column": Case(
        "ALTER TABLE t RENAME COLUMN city TO town", STANDING, ("id", "town", "n", "at")
    ),
    "widen a column": Case("ALTER TABLE t ALTER COLUMN n TYPE BIGINT", STANDING),
}
QUERIES: dict[str, tuple[str, list[Row]]] = {
    "all": ("SELECT * FROM t ORDER BY id", STANDING),
    "computed": (
        "SELECT upper(city) AS c, n + 1 FROM t WHERE id > 1 ORDER BY id",
        [("ROME", 3), ("PARIS", 4)],
    ),
    "joined with arrow rows": (
        "SELECT t.id, s.op FROM t JOIN changes s ON t.id = s.id ORDER BY t.id",
        [(1, "U"), (2, "D")],
    ),
    "with": ("WITH big AS (SELECT * FROM t WHERE n > 1) SELECT count(*) AS n FROM big", [(2,)]),
    "union": (
        "SELECT id FROM t UNION ALL SELECT id FROM changes WHERE id > 4 ORDER BY id",
        [(1,), (2,), (3,), (5,)],
    ),
    "braces": ("SELECT '{t}' AS a, id FROM t WHERE id = 1", [("{t}", 1)]),
    "without a table": ("SELECT 1 AS one", [(1,)]),
}


def new_table(location: str | Path, table_type: str) -> LakehouseTable:
    """With the standing rows."""
    table = create_table(
        location,
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["at"],
        table_type=table_type,
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    values = [dict(zip(_TYPES, row, strict=True)) for row in STANDING]
    table.write(pa.Table.from_pylist(values, schema=SCHEMA), options=OPTIONS)
    return table


def check(case: Case, table: LakehouseTable, run: Callable[..., Any] = run_sql) -> None:
    """Carry the case out, and compare what stands then."""
    outcome = run(case.statement, tables={"t": table, "changes": CHANGES}, options=OPTIONS)
    assert isinstance(outcome, Committed), outcome
    read = table.read()
    assert tuple(read.column_names) == case.columns
    rows = [tuple(row.values()) for row in read.to_pylist()]
    assert sorted(rows, key=lambda row: row[0]) == case.rows
