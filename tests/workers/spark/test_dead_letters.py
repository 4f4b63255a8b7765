"""Rows of a frame that the table cannot hold: put aside by the tasks that meet them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.invariants import leftovers, orphan_files
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.spark.types import to_arrow
from workers.timeline.metadata import (
    DEAD_LETTER_FILES_KEY,
    DEAD_LETTER_ROWS_KEY,
    read_commit_metadata,
)

pytestmark = pytest.mark.spark

OPTIONS = {"hoodie.write.markers.type": "direct"}


@pytest.mark.slow
@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("rows", [200, 20_000], ids=["answered", "staged"])
def test_tasks_put_bad_rows_aside_and_the_rest_is_committed(
    tmp_path: Path, spark: SparkSession, rows: int
) -> None:
    frame = spark.range(0, rows, 1, 2).selectExpr(
        "if(id % 100 = 7, null, cast(id as string)) as id",
        "id as ts",
        "if(id % 100 = 8, '../etc', 'p') as part",
    )
    table = create_table(
        tmp_path / "table",
        name="things",
        schema=to_arrow(frame.schema),
        record_key=["id"],
        ordering=["ts"],
        partition_by=["part"],
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    letters = tmp_path / "letters"

    outcome = table.write(frame, options={**OPTIONS, "sluice.dead.letter.path": str(letters)})

    assert isinstance(outcome, Committed), outcome
    assert outcome.rows == table.read(columns=["id"]).num_rows == rows - rows // 50
    letter_rows = pq.read_table(letters)
    put_aside = letter_rows.sort_by("ts").column("ts").to_pylist()
    assert put_aside == [n for n in range(rows) if n % 100 in (7, 8)]
    assert set(letter_rows.column("_sluice_instant").to_pylist()) == {outcome.instant}
    extra = _extra(table, outcome.instant)
    assert extra[DEAD_LETTER_ROWS_KEY] == str(letter_rows.num_rows)
    assert sorted(extra[DEAD_LETTER_FILES_KEY].split(",")) == sorted(
        file.name for file in letters.iterdir()
    )
    assert len(list(letters.iterdir())) == 2
    assert orphan_files(table.table) == leftovers(table.table) == []

    with pytest.raises(InvalidInput, match="in the table already"):
        table.write(
            frame,
            operation="insert",
            options={
                **OPTIONS,
                "sluice.dead.letter.path": str(letters),
                "hoodie.datasource.insert.dup.policy": "fail",
            },
        )
    assert len(list(letters.iterdir())) == 2


def _extra(table: LakehouseTable, instant: str) -> dict[str, str]:
    commit = table.table.timeline().find(instant)
    assert commit is not None
    content = table.table.storage.read(table.table.layout.path(commit))
    return dict(read_commit_metadata(content).extra_metadata)
