"""The calendar in which the dates and times of a Parquet file are counted.

Ours are proleptic Gregorian, and so are those of Arrow and of Spark since 3. Spark can be
configured to write the hybrid calendar of its earlier versions. Its files then declare that, and
old values in them are other days than their numbers suggest.
"""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from workers.errors import UnsupportedTable
from workers.files.arrow_streams import OpenParquet

# Spark suspects the hybrid calendar also where no version of it is named, and raises on old values.
# It compares versions as text: 3.1 is the first whose dates and times of every kind are like ours.
VERSION_KEY = "org.apache.spark.version"
PROLEPTIC = {VERSION_KEY: "3.1.0+sluice"}
_HYBRID_KEY = b"org.apache.spark.legacyDateTime"
_FIRST_PROLEPTIC = b"3.0.0"

_FIRST_DAY = -141_427
"""1582-10-15, from which the calendars agree."""
_FIRST_SECOND = -2_208_988_800
"""1900-01-01, from which Spark's time zones agree as well."""
_PER_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


def check_calendar(file: OpenParquet) -> None:
    """Check the calendar that the file's writer declares. Raises UnsupportedTable when the file may
    hold old values in the hybrid calendar.
    """
    keys = file.metadata.metadata or {}
    is_old = keys.get(VERSION_KEY.encode(), _FIRST_PROLEPTIC) < _FIRST_PROLEPTIC
    if not is_old and _HYBRID_KEY not in keys:
        return
    schema = file.metadata.schema
    for at in range(len(schema.names)):
        least = _least(schema.column(at))
        if least is not None and _holds_less(file.metadata, at, least):
            raise UnsupportedTable(
                "file has old dates or times in Spark's hybrid calendar, which is not read",
                column=schema.column(at).path,
            )


def _least(column: pq.ColumnSchema) -> int | None:
    """Return the first value that both calendars spell the same, or None for a column without dates
    or times.
    """
    if column.logical_type.type == "DATE":
        return _FIRST_DAY
    if column.logical_type.type == "TIMESTAMP":
        unit = json.loads(column.logical_type.to_json())["timeUnit"]
        return _FIRST_SECOND * _PER_SECOND[unit]
    return None


def _holds_less(metadata: pq.FileMetaData, at: int, least: int) -> bool:
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return any(_can_be_less(group.column(at).statistics, least) for group in groups)


def _can_be_less(statistics: pq.Statistics | None, least: int) -> bool:
    if statistics is None:
        return True
    if not statistics.num_values:  # Nothing but nulls.
        return False
    smallest = statistics.min_raw if statistics.has_min_max else None
    return smallest is None or smallest < least
