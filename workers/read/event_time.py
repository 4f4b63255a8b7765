"""Ordering values as times: what a clock of a stream says, where its ordering column is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.merge.versions import combine_chunks
from workers.options.time_units import TimeUnit

NO_TIME = np.int64(np.iinfo(np.int64).min)
Times = np.ndarray[tuple[int], np.dtype[np.int64]]
_MOST_MS = 253_402_300_800_000.0  # The year 10000, where a date ends.


def event_times(
    column: pa.ChunkedArray[Any] | pa.Array[Any], unit: TimeUnit | None = None
) -> Times:
    """Milliseconds since 1970 per value; `NO_TIME` where it is null or no time. Numbers are times
    where the table declares their unit.
    """
    values: Any = combine_chunks(column) if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        times: Any = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        return np.asarray(pc.fill_null(times, int(NO_TIME)).to_numpy(zero_copy_only=False))
    if pa.types.is_string(values.type):
        return _of_texts(values)
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if is_number and unit is not None:
        wide: Any = values.cast(pa.float64(), safe=False)
        numbers: Any = pc.fill_null(wide, float("nan"))
        return _of_numbers(numbers.to_numpy(zero_copy_only=False), unit)
    return np.full(len(values), NO_TIME)


def _of_numbers(numbers: np.ndarray[tuple[int], np.dtype[np.float64]], unit: TimeUnit) -> Times:
    times = np.full(len(numbers), NO_TIME)
    event_ms = numbers * (1_000 / unit.per_s)
    is_time = np.abs(event_ms) < _MOST_MS  # A null is not.
    times[is_time] = event_ms[is_time].astype(np.int64)
    return times


def _of_texts(values: Any) -> Times:
    try:
        return event_times(values.cast(pa.timestamp("ms", tz="UTC")))
    except pa.ArrowInvalid:
        pass  # Some have no zone, or are no times.
    try:
        return event_times(values.cast(pa.timestamp("ms")))
    except pa.ArrowInvalid:
        return np.full(len(values), NO_TIME)
