"""Columns of times as the text of a partition path, whole columns at a time.

Only values that differ in the path are formatted individually: times are first cut to the smallest
part that the pattern shows. Null is the first millisecond, second or other unit of 1970, as in
Hudi.

The changes of a zone's offset are computed once per zone and year, by Python's time zone database:
Arrow's own conversion has no summer time after 2037.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.options.java_dates import Token
from workers.options.time_partitions import TimeRule, Zone

Times = np.ndarray[Any, np.dtype[np.int64]]
"""Milliseconds since 1970."""
DAY_MS: Final = 86_400_000
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_YEAR_MIN, _YEAR_MAX = 1, 9998
_ZONES_AND_YEARS_MAX: Final = 4_096
_NULL_VALUE: Final = 1
_CUTS: Final = {"S": 1, "s": 1_000, "m": 60_000, "H": 3_600_000}
"""What each part of a pattern cuts to, in ms; other parts that show hours cut to one, the rest to a
day.
"""
_HOURS: Final = "hkK"
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, in any zone a day more or less."""
_FIRST_MS: Final = -62_135_596_800_000


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


class Unformatted(InvalidInput):
    """Some values cannot be formatted. Correct them."""

    def __init__(self, message: str, is_bad: Any, column: str) -> None:
        super().__init__(message, column=column)
        self.column = column
        self.is_bad = is_bad
        """Per row, whether it is one of them."""


def check_time_column(rule: TimeRule, field: str, kind: pa.DataType) -> None:
    """Check that this column gives the same partition path for every writer.

    Raises InvalidInput for a type whose path differs between the write paths of Hudi.
    """
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    if rule.kind.is_text and not is_text:
        raise InvalidInput(
            f"timestamp type {rule.kind} partitions by text", column=field, type=kind
        )
    if not rule.kind.is_text and not (types.is_integer(kind) or types.is_floating(kind)):
        raise InvalidInput(
            f"timestamp type {rule.kind} partitions by a number", column=field, type=kind
        )


def time_texts(rule: TimeRule, field: str, column: pa.Array[Any]) -> pa.Array[Any]:
    """Return the text of each value in the path, neither encoded nor named. Raises InvalidInput,
    Unformatted.
    """
    check_time_column(rule, field, column.type)
    if rule.kind.is_text:
        encoded = column.cast(pa.string()).dictionary_encode(null_encoding="encode")
        local, is_bad = _read(rule, encoded.dictionary)
        if is_bad.any():
            per_row: Any = is_bad[encoded.indices.to_numpy()]
            message = "partition value must match the table's date patterns"
            raise Unformatted(message, pa.array(per_row), field)
        texts = _written(rule.output, local)
        formatted: pa.Array[Any] = texts.take(encoded.indices)
        return formatted
    times, is_bad = _times(rule, column)
    if is_bad.any():
        message = "partition value is beyond the years 1 to 9999"
        raise Unformatted(message, pa.array(is_bad), field)
    assert rule.output_zone is not None, rule
    return _written(rule.output, to_wall_times(times, rule.output_zone))


def _times(rule: TimeRule, column: pa.Array[Any]) -> tuple[Times, Any]:
    """Return milliseconds since 1970, and which values have no path."""
    null_value: Any = pa.scalar(_NULL_VALUE, column.type)
    filled: Any = pc.fill_null(column, null_value)
    values = filled.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        # As Java: towards zero, NaN as zero.
        values = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
    times, divided = rule.unit.to_ms
    rough = values.astype(np.float64) * times / divided
    is_bad = (rough < _FIRST_MS + DAY_MS) | (rough > _LAST_MS - DAY_MS)
    whole = np.where(is_bad, 0, values).astype(np.int64)
    multiplied = whole * times
    return (np.abs(multiplied) // divided) * np.sign(multiplied), is_bad


def _written(tokens: Sequence[Token], local: Times) -> pa.Array[Any]:
    cut = min(_cut(token) for token in tokens if token.letter)
    distinct, which = np.unique(local // cut, return_inverse=True)
    texts = [
        _text(tokens, EPOCH + dt.timedelta(milliseconds=int(value) * cut)) for value in distinct
    ]
    indices: Any = pa.array(which)
    row_texts: pa.Array[Any] = pa.array(texts, pa.string()).take(indices)
    return row_texts


def _cut(token: Token) -> int:
    if token.letter in _HOURS:
        return _CUTS["H"]
    return _CUTS.get(token.letter, DAY_MS)


def _text(tokens: Sequence[Token], moment: dt.datetime) -> str:
    return "".join(token.text or _part(token, moment) for token in tokens)


def _part(token: Token, moment: dt.datetime) -> str:
    letter, count = token.letter, token.count
    year, week, day = moment.isocalendar()
    if letter == "S":
        return f"{moment.microsecond:06d}".ljust(count, "0")[:count]
    numbers = {
        "y": moment.year,
        "Y": moment.year,
        "M": moment.month,
        "d": moment.day,
        "D": moment.timetuple().tm_yday,
        "H": moment.hour,
        "k": moment.hour or 24,
        "K": moment.hour % 12,
        "h": moment.hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
        "x": year,
        "w": week,
        "e": day,
    }
    is_short_year = letter in "yYx" and count == 2
    number = numbers[letter] % 100 if is_short_year else numbers[letter]
    return f"{number:0{count}d}"


_READ: Final = {
    "y": r"(?P<y>[0-9]{4})",
    "Z": r"(?P<Z>[+-][0-9]{2}:?[0-9]{2})",
}


def _read(rule: TimeRule, texts: pa.Array[Any]) -> tuple[Times, Any]:
    """Return local times in the output's zone in ms, and which values match no pattern."""
    null_text: Any = pa.scalar(_null_text(rule))
    filled_texts: Any = pc.fill_null(texts, null_text)
    local = np.zeros(len(filled_texts), np.int64)
    is_read = np.zeros(len(filled_texts), bool)
    for tokens in rule.inputs:
        token_times, fits = _read_by(rule, tokens, filled_texts)
        now = fits & ~is_read
        local[now] = token_times[now]
        is_read |= fits
    return local, ~is_read


def _read_by(
    rule: TimeRule, tokens: Sequence[Token], texts: pa.Array[Any]
) -> tuple[Times, np.ndarray[Any, Any]]:
    parts: Any = pc.extract_regex(texts, _expression(tokens))
    fits = parts.is_valid().to_numpy(zero_copy_only=False)
    letters = [token.letter for token in tokens if token.letter]
    part_by_letter = dict(zip(letters, (_column(parts, letter) for letter in letters), strict=True))

    def number(letter: str, least: int) -> Times:
        if letter not in part_by_letter:
            return np.full(len(texts), least, np.int64)
        filled: Any = pc.fill_null(part_by_letter[letter], str(least))
        numbers: Times = pc.cast(filled, pa.int64()).to_numpy(zero_copy_only=False)
        return numbers

    month, day = number("M", 1), number("d", 1)
    hour, minute, second = number("H", 0), number("m", 0), number("s", 0)
    if "h" in part_by_letter:
        half = number("h", 12)
        fits &= (half >= 1) & (half <= 12)
        hour = half % 12
    fits &= (month >= 1) & (month <= 12) & (day >= 1) & (number("y", 1970) >= 1)
    fits &= (hour < 24) & (minute < 60) & (second < 60)
    months = (number("y", 1970) - 1970) * 12 + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]") + (day - 1)
    fits &= days.astype("datetime64[M]").astype(np.int64) == months
    local: Times = days.astype(np.int64) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1_000
    local = local + (_fraction_ms(part_by_letter["S"]) if "S" in part_by_letter else 0)
    return _in_output_zone(rule, local, _offset_ms(part_by_letter.get("Z")), fits)


def _in_output_zone(
    rule: TimeRule, local: Times, offset_ms: Times | None, fits: np.ndarray[Any, Any]
) -> tuple[Times, np.ndarray[Any, Any]]:
    local = np.where(fits, local, 0)
    if offset_ms is not None:
        fits &= np.abs(offset_ms) < DAY_MS
        times = local - offset_ms
    else:
        assert rule.input_zone is not None, rule
        times, is_shown = from_wall_times(local, rule.input_zone)
        fits &= is_shown
    if rule.output_zone is None:
        return local, fits
    return to_wall_times(times, rule.output_zone), fits


def _expression(tokens: Sequence[Token]) -> str:
    """Return the regular expression of a pattern. Adjacent numbers have as many digits as the
    pattern has repeated characters.
    """
    groups = []
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if not token.letter:
            groups.append(re.escape(token.text))
        elif token.letter in _READ:
            groups.append(_READ[token.letter])
        elif token.letter == "S":
            groups.append(f"(?P<S>[0-9]{{1,{token.count}}})")
        else:
            is_fixed = following is not None and following.is_number
            digits = "{2}" if is_fixed else "{1,2}"
            groups.append(f"(?P<{token.letter}>[0-9]{digits})")
    return "^" + "".join(groups) + "$"


def _column(parts: Any, letter: str) -> Any:
    return pc.struct_field(parts, [letter])


def _fraction_ms(digits: Any) -> Times:
    padded: Any = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.fill_null(digits, "0"), 3, "0"), 0, 3)
    fraction_ms: Times = pc.cast(padded, pa.int64()).to_numpy(zero_copy_only=False)
    return fraction_ms


def _offset_ms(texts: Any) -> Times | None:
    if texts is None:
        return None
    plain: Any = pc.replace_substring(pc.fill_null(texts, "+0000"), ":", "")
    hours: Any = pc.cast(pc.utf8_slice_codeunits(plain, 1, 3), pa.int64())
    minutes: Any = pc.cast(pc.utf8_slice_codeunits(plain, 3, 5), pa.int64())
    total = hours.to_numpy(zero_copy_only=False) * 60 + minutes.to_numpy(zero_copy_only=False)
    is_west = pc.starts_with(plain, "-").to_numpy(zero_copy_only=False)
    offset_ms: Times = np.where(is_west, -total, total) * 60_000
    return offset_ms


def _null_text(rule: TimeRule) -> str:
    """Return what Hudi reads for a null: the first millisecond of 1970 by the first pattern."""
    zone = rule.input_zone or rule.output_zone or Zone()
    [local] = to_wall_times(np.array([_NULL_VALUE], np.int64), zone)
    moment = EPOCH + dt.timedelta(milliseconds=int(local))
    minutes = (int(local) - _NULL_VALUE) // 60_000
    sign, size = ("-", -minutes) if minutes < 0 else ("+", minutes)
    offset = f"{sign}{size // 60:02d}{size % 60:02d}"
    return "".join(
        token.text or (offset if token.letter == "Z" else _part(token, moment))
        for token in rule.inputs[0]
    )
