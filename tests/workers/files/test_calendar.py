"""Old dates and times in Spark's hybrid calendar are refused, never taken for other days."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.errors import UnsupportedTable
from workers.files.base_file import read_parquet, write_parquet
from workers.files.calendar import VERSION_KEY

HYBRID = {VERSION_KEY: "3.5.0", "org.apache.spark.legacyDateTime": ""}
OLD, YOUNG = dt.date(1500, 2, 28), dt.date(1970, 1, 1)


def rows(day: dt.date | None, unit: str = "us") -> pa.Table:
    days = pa.array([day], pa.date32())
    return pa.table({"day": days, "moment": days.cast(pa.timestamp(unit))})


def file_of(written: pa.Table, keys: dict[str, str], *, statistics: bool = True) -> io.BytesIO:
    stream = io.BytesIO()
    with pq.ParquetWriter(stream, written.schema, write_statistics=statistics) as writer:
        writer.write_table(written)
        writer.add_key_value_metadata(keys)
    return io.BytesIO(stream.getvalue())


@pytest.mark.parametrize("keys", [HYBRID, {VERSION_KEY: "2.4.8"}], ids=["told", "by version"])
@pytest.mark.parametrize("column", ["day", "moment"])
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_old_values_of_the_hybrid_calendar_are_refused(
    keys: dict[str, str], column: str, unit: str
) -> None:
    with pytest.raises(UnsupportedTable, match="hybrid calendar"):
        read_parquet(file_of(rows(OLD, unit).select([column]), keys))


def test_values_that_both_calendars_spell_alike_are_read() -> None:
    for day in (YOUNG, None):
        assert read_parquet(file_of(rows(day), HYBRID)).to_pylist() == rows(day).to_pylist()


def test_file_that_does_not_tell_its_values_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match="hybrid calendar"):
        read_parquet(file_of(rows(YOUNG), HYBRID, statistics=False))


@pytest.mark.parametrize("keys", [{}, {VERSION_KEY: "3.5.0"}], ids=["others", "spark"])
def test_old_values_of_our_calendar_are_read(keys: dict[str, str]) -> None:
    assert read_parquet(file_of(rows(OLD), keys)).to_pylist() == rows(OLD).to_pylist()


def test_our_files_name_the_calendar() -> None:
    stream = io.BytesIO()
    write_parquet(stream, rows(OLD), footer={"a": "b"}, codec="zstd", level=1)

    keys = pq.ParquetFile(stream).metadata.metadata

    assert keys == {VERSION_KEY.encode(): b"3.1.0+sluice", b"a": b"b"}
