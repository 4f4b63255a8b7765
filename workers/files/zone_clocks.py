"""Local times of a time zone, for whole columns of times.

The changes of a zone's offset are computed once per zone and year, by Python's time zone database:
Arrow's own conversion has no summer time after 2037.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from workers.options.time_partitions import Zone

Times = np.ndarray[Any, np.dtype[np.int64]]
"""Milliseconds since 1970."""
DAY_MS: Final = 86_400_000
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_YEAR_MIN, _YEAR_MAX = 1, 9998
_ZONES_AND_YEARS_MAX: Final = 4_096


def to_wall_times(times: Times, zone: Zone) -> Times:
    """Convert UTC times to the zone's local times, in ms as if they were UTC."""
    local: Times = times + _offsets(times, zone)
    return local


def from_wall_times(local: Times, zone: Zone) -> tuple[Times, np.ndarray[Any, Any]]:
    """Convert local times to UTC: the first such time when clocks are set back. Also returns which
    local times exist, because clocks skip an hour when they are set forward.
    """
    if not zone.name:
        return local - zone.offset_ms, np.ones(len(local), bool)
    early = local - _offsets(local - DAY_MS, zone)
    late = local - _offsets(local + DAY_MS, zone)
    is_early = to_wall_times(early, zone) == local
    is_late = to_wall_times(late, zone) == local
    first = np.where(is_early & is_late, np.minimum(early, late), np.where(is_early, early, late))
    return first, is_early | is_late


def _offsets(times: Times, zone: Zone) -> Any:
    if not zone.name:
        return zone.offset_ms
    years = np.unique(times.astype("datetime64[ms]").astype("datetime64[Y]").astype(np.int64))
    changes = [change for year in years.tolist() for change in _changes(zone.name, year + 1970)]
    starts = np.array([start for start, _ in changes], np.int64)
    offsets = np.array([offset for _, offset in changes], np.int64)
    return offsets[np.searchsorted(starts, times, side="right") - 1] if len(times) else times


@lru_cache(maxsize=_ZONES_AND_YEARS_MAX)
def _changes(name: str, year: int) -> tuple[tuple[int, int], ...]:
    """Return (start, offset) of each change in a year, beginning with its start; all in ms."""
    zone = ZoneInfo(name)
    year = min(max(year, _YEAR_MIN), _YEAR_MAX)
    start = _ms(dt.datetime(year, 1, 1, tzinfo=dt.UTC))
    end = _ms(dt.datetime(year + 1, 1, 1, tzinfo=dt.UTC))
    changes = [(start, _offset(zone, start))]
    for day in range(start, end, DAY_MS):
        low, high = day, min(day + DAY_MS, end)
        if _offset(zone, high) == changes[-1][1]:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if _offset(zone, middle) == changes[-1][1]:
                low = middle
            else:
                high = middle
        changes.append((high, _offset(zone, high)))
    return tuple(changes)


def _ms(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(milliseconds=1)


def _offset(zone: ZoneInfo, time: int) -> int:
    offset = (EPOCH + dt.timedelta(milliseconds=time)).astimezone(zone).utcoffset()
    assert offset is not None, zone
    return offset // dt.timedelta(milliseconds=1)
