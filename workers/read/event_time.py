"""Ordering values as times: what a clock of a stream says, where its ordering column can be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.merge.versions import single

NO_TIME = np.int64(np.iinfo(np.int64).min)
Times = np.ndarray[tuple[int], np.dtype[np.int64]]
_UNITS = (1.0, 1e3, 1e6)
"""Of an epoch in seconds, milliseconds, microseconds: told apart by their size."""
_LEAST_S, _MOST_S = 1e8, 1e10


def event_times(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> Times:
    """Milliseconds since 1970 per value; `NO_TIME` where it is null or can be no time."""
    values: Any = single(column) if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        found: Any = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        return np.asarray(pc.fill_null(found, int(NO_TIME)).to_numpy(zero_copy_only=False))
    if pa.types.is_string(values.type):
        return _of_texts(values)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        wide: Any = values.cast(pa.float64(), safe=False)
        numbers: Any = pc.fill_null(wide, 0.0)
        return _of_numbers(numbers.to_numpy(zero_copy_only=False))
    return np.full(len(values), NO_TIME)


def _of_numbers(numbers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Times:
    times = np.full(len(numbers), NO_TIME)
    for unit in _UNITS:
        is_time = (times == NO_TIME) & (numbers / unit >= _LEAST_S) & (numbers / unit < _MOST_S)
        times[is_time] = (numbers[is_time] * (1e3 / unit)).astype(np.int64)
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
