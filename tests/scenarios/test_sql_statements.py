"""The suite of statements that both engines carry out, here by DuckDB in this process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.sql_statements import CASES, CHANGES, OPTIONS, QUERIES, check, new_table
from workers import run_sql
from workers.errors import InvalidInput


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("name", CASES)
def test_statement_leaves_the_rows(name: str, table_type: str, tmp_path: Path) -> None:
    check(CASES[name], new_table(tmp_path / "t", table_type))


@pytest.mark.parametrize("name", QUERIES)
def test_query_answers_rows(name: str, tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "MERGE_ON_READ")
    query, rows = QUERIES[name]

    answer = run_sql(query, tables={"t": table, "changes": CHANGES})

    assert isinstance(answer, pa.Table)
    assert [tuple(row.values()) for row in answer.to_pylist()] == rows
    assert len(table.timeline()) == 2


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("INSERT INTO changes VALUES (1)", "lakehouse table is needed here.*changes"),
        ("ALTER TABLE t RENAME TO u", "change of a table is not supported"),
        ("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", "change of a table is not supported"),
        ("ALTER TABLE t ADD COLUMN x INT NOT NULL", "required and has a default"),
        ("ALTER TABLE t ALTER COLUMN n TYPE STRING", "column=n"),
        ("ALTER TABLE t DROP COLUMN id", "stay as they are"),
        ("SELECT * FROM nowhere", "no table of this name was given.*nowhere"),
        ("SELECT nope FROM t", "cannot be computed"),
        (
            "MERGE INTO t USING changes s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE",
            "part of WHEN",
        ),
        (
            """MERGE INTO t USING changes s ON t.id = s.id
               WHEN MATCHED AND s.op = 'D' THEN DELETE WHEN MATCHED THEN DELETE""",
            "one WHEN MATCHED THEN DELETE",
        ),
        (
            """MERGE INTO t USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id
               WHEN MATCHED THEN DELETE""",
            "several rows for one row",
        ),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    statement: str, why: str, tmp_path: Path
) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")
    before = table.read()

    with pytest.raises(InvalidInput, match=why):
        run_sql(statement, tables={"t": table, "changes": CHANGES}, options=OPTIONS)

    assert table.read() == before
