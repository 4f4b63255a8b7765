"""A data frame overwrites the files that its plan saw, or nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from workers.concurrency.outcome import Committed
from workers.errors import PlanChanged
from workers.lakehouse import create_table
from workers.spark.write import write_dataframe
from workers.table.view import FileSystemView
from workers.write.replacement import digest_slices

pytestmark = [pytest.mark.spark]

OPTIONS = {"hoodie.write.markers.type": "direct"}


def test_a_frame_takes_the_place_of_what_was_planned_and_of_nothing_newer(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = pa.table({"id": ["a", "b"], "city": ["Oslo", "Turku"]})
    made = create_table(tmp_path / "t", name="t", schema=rows.schema, record_key=["id"])
    made.write(rows, options=OPTIONS)
    table, frame = made.table, spark.createDataFrame([("c", "Bergen")], "id string, city string")
    planned = digest_slices(FileSystemView.load(table).slices)

    made.write(rows.slice(0, 1), options=OPTIONS)
    with pytest.raises(PlanChanged):
        write_dataframe(
            table, frame, operation="insert_overwrite_table", options=OPTIONS, replaces=planned
        )
    kept = sorted(made.read().column("id").to_pylist())
    pending = [instant for instant in table.timeline().instants if not instant.is_completed]

    newer = digest_slices(FileSystemView.load(table).slices)
    outcome = write_dataframe(
        table, frame, operation="insert_overwrite_table", options=OPTIONS, replaces=newer
    )

    assert (kept, pending) == (["a", "b"], [])
    assert isinstance(outcome, Committed)
    assert made.read().column("id").to_pylist() == ["c"]
