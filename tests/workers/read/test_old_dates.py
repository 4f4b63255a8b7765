"""Dates and moments from before the Gregorian calendar, in base files and logs of both formats.

The referee, hudi-rs, reads every table here when its test ends; Spark and Apache Hudi have tests of
their own.
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTables, schema_of

OLD = schema_of(id=pa.string(), day=pa.date32(), moment=pa.timestamp("us", "UTC"))
MOMENTS = [
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1500, 2, 28, 23, 59, 59, 999_999, tzinfo=dt.UTC),
    dt.datetime(1582, 10, 10, tzinfo=dt.UTC),
    dt.datetime(1899, 12, 31, tzinfo=dt.UTC),
]


@pytest.mark.parametrize(
    ("kind", "log"),
    [("COPY_ON_WRITE", "parquet"), ("MERGE_ON_READ", "parquet"), ("MERGE_ON_READ", "avro")],
)
def test_old_days_and_moments_are_read_as_written(
    tables: ScenarioTables, kind: str, log: str
) -> None:
    table = tables(schema=OLD, table_type=kind)
    rows = [
        {"id": str(number), "day": moment.date(), "moment": moment}
        for number, moment in enumerate(MOMENTS)
    ]
    writer = table.writer("w", options={"hoodie.logfile.data.block.format": log})
    writer.upsert_and_commit(*rows)
    writer.upsert_and_commit(*rows[1:3])

    assert table.rows() == rows
