"""Null counts from the footers of base files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from workers import create_table
from workers.read import null_counts
from workers.read.null_counts import NullCounts, count_nulls
from workers.read.scan_plan import plan_scan
from workers.schema.alter import AddColumn

COLUMNS: dict[str, Any] = {
    "id": pa.int64(),
    "city": pa.string(),
    "tags": pa.list_(pa.string()),
}
SCHEMA = pa.schema(COLUMNS)


def test_counts_are_those_of_the_rows_and_missing_columns_are_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"hoodie.bucket.index.num.buckets": "2"}
    table = create_table(
        tmp_path / "t", name="t", schema=SCHEMA, record_key=["id"], options=options
    )
    rows = [{"id": at, "city": None if at % 3 else "Oslo", "tags": None} for at in range(30)]
    table.write(pa.Table.from_pylist(rows, schema=SCHEMA))

    def read_counts() -> NullCounts:
        scan = plan_scan(table.table)
        return count_nulls(table.table.storage, scan.table_schema.arrow, scan.slices)

    assert read_counts() == NullCounts({"id": 0, "city": 20, "tags": None}, 30, 2, 2, 0)

    table.alter(AddColumn("note", pa.string()))
    assert read_counts().nulls["note"] == 30

    monkeypatch.setattr(null_counts, "FILES_MAX", 1)
    part = read_counts()
    assert (part.files_read, part.files) == (1, 2)
    assert part.nulls["note"] == part.rows < 30
