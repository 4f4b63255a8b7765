"""JSON lines as the source of a Spark write: typed by Arrow, read by Spark's tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import create_table
from workers.spark.inputs import open_source
from workers.spark.write import write_frame

pytestmark = pytest.mark.spark
LINES = """
{"id": "1", "ts": 5, "city": "Oslo", "at": "2026-01-02T03:04:05Z"}
{"id": "2", "ts": 6}
{"id": "3", "ts": 7, "city": null, "seen": {"by": ["a", "b"]}}
"""


def test_lines_become_rows_and_fields_that_the_table_lacks_become_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    types: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "city": pa.string()}
    schema = pa.schema(types)
    table = create_table(tmp_path / "t", name="t", schema=schema, record_key=["id"])
    (tmp_path / "new.json").write_text(LINES.lstrip())
    source = {"kind": "json", "path": str(tmp_path / "new.json")}
    roots = {"SLUICE_SOURCE_ROOTS": str(tmp_path)}
    around = {"table": table.table, "writer": "w", "scratch": tmp_path}

    opened = open_source(source, environment=roots, **around)  # type: ignore[arg-type] # typed one by one
    outcome = write_frame(
        table.table,
        opened.frame(spark, 0),
        "upsert",
        None,
        {"hoodie.write.markers.type": "direct"},
    )

    assert isinstance(outcome, Committed)
    rows = sorted(table.read().to_pylist(), key=lambda row: str(row["id"]))
    assert [(row["id"], row["ts"], row["city"]) for row in rows] == [
        ("1", 5, "Oslo"),
        ("2", 6, None),
        ("3", 7, None),
    ]
    assert str(rows[0]["at"]).startswith("2026-01-02 03:04:05")
    assert rows[2]["seen"] == {"by": ["a", "b"]}
    with pytest.raises(InvalidInput, match="outside the configured roots"):
        open_source(source, environment={"SLUICE_SOURCE_ROOTS": "/nowhere"}, **around)  # type: ignore[arg-type] # as above
