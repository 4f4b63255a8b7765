"""Texts as values of a column's type, exactly: what would lose anything is refused.

Whole columns are converted by Arrow. Only where Arrow takes one of them for wrong, or may have
rounded it, are the distinct texts of the block converted one by one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, DecimalException
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.loading.findings import LoadCounts
from workers.loading.options import LoadOptions, zone_named

_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?")
_COMMA_NUMBER: Final = r"^\s*[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)?(?:,\d+)?(?:[eE][+-]?\d{1,4})?\s*$"
_NOT_FINITE: Final = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d+))?)?"
    r"(?: ?([Zz]|[+-]\d\d(?::?\d\d)?))?)?"
)
_EXACT: Final = Context(prec=400)
_WHOLE_EXACT: Final[Mapping[Any, int]] = {pa.float64(): 2**53, pa.float32(): 2**24}
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of times that name no zone
_UNITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


ArrowColumn = Any
"""An array of any type: its stubs have a class for each."""


class Unfit(Exception):
    """A text that a type cannot hold: why, and what to do about it."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


class UnfitAt(Exception):
    """The first text of a column that its type cannot hold, by its position."""

    def __init__(self, position: int, unfit: Unfit, value: str) -> None:
        super().__init__(unfit.reason)
        self.position = position
        self.unfit = unfit
        self.value = value


@dataclass(frozen=True, slots=True)
class Converter:
    """Texts of one column as values of `type`."""

    column: str
    type: Any
    options: LoadOptions
    counts: LoadCounts

    def convert(self, texts: ArrowColumn) -> ArrowColumn:
        """Return the values of the texts. Raises UnfitAt."""
        if texts.null_count == len(texts):
            return nulls(len(texts), self.type)
        if pa.types.is_string(self.type) or pa.types.is_binary(self.type):
            return texts.cast(self.type)
        plain = self._plain_numbers(texts) if _is_number(self.type) else texts
        for is_trimmed in (False, True):
            shaped = pc.utf8_trim_whitespace(plain) if is_trimmed else plain
            try:
                return self._check_exact(shaped, self._cast(shaped))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
        return self._one_by_one(plain)

    def _plain_numbers(self, texts: ArrowColumn) -> ArrowColumn:
        """Return the texts with a point for each decimal comma."""
        if not self.options.decimal_comma:
            return texts
        is_so: ArrowColumn = pc.match_substring_regex(texts, _COMMA_NUMBER)
        wrong = pc.index(is_so, False).as_py()
        if wrong >= 0:
            unfit = Unfit("the value is not a number with a decimal comma")
            raise UnfitAt(wrong, unfit, texts[wrong].as_py())
        return pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")

    def _cast(self, texts: ArrowColumn) -> ArrowColumn:
        zone = getattr(self.type, "tz", None)
        if zone is None:
            return texts.cast(self.type)
        try:
            return texts.cast(self.type)
        except pa.ArrowInvalid:
            if not self.options.time_zone:
                raise
            naive = texts.cast(pa.timestamp(self.type.unit))
            local = pc.assume_timezone(naive, self.options.time_zone)
            return local.cast(self.type)

    def _check_exact(self, texts: ArrowColumn, values: ArrowColumn) -> ArrowColumn:
        """The values, where none was rounded. Raises ArrowInvalid for a column to convert again."""
        if pa.types.is_integer(self.type):
            zeros: ArrowColumn = have_leading_zeros(texts)
            often = pc.sum(zeros).as_py() or 0
            self.counts.convert(self.column, "leading zeros are not kept in a number", often)
        if is_beyond_exact(values):
            raise pa.ArrowInvalid("values may be rounded")
        return values

    def _one_by_one(self, texts: ArrowColumn) -> ArrowColumn:
        encoded = texts.dictionary_encode()
        result: list[Any] = []
        done: dict[int, str] = {}
        for code, text in enumerate(encoded.dictionary.to_pylist()):
            try:
                value, what = convert_text(text, self.type, self.options)
            except Unfit as unfit:
                indices: Any = encoded.indices
                at = pc.index(indices, pa.scalar(code, indices.type)).as_py()
                raise UnfitAt(at, unfit, text) from unfit
            result.append(value)
            if what:
                done[code] = what
        if done:
            indices = encoded.indices.fill_null(len(result)).to_numpy(zero_copy_only=False)
            often = np.bincount(indices, minlength=len(result) + 1)
            for code, what in done.items():
                self.counts.convert(self.column, what, int(often[code]))
        values: Any = _array(result, self.type)
        return values.take(encoded.indices)


def convert_text(text: str, kind: Any, options: LoadOptions) -> tuple[Any, str]:
    """Return the value that a text is in a type, and the name of a conversion that is worth
    counting, else nothing. Raises Unfit.
    """
    stripped = text.strip()
    types = pa.types
    if types.is_string(kind):
        return text, ""
    if not stripped:
        raise Unfit("the value is blank")
    if types.is_integer(kind):
        return _whole(stripped, kind)
    if types.is_floating(kind):
        return _float(stripped, kind)
    if types.is_decimal(kind):
        return _decimal(stripped, kind), ""
    if types.is_boolean(kind):
        return _bool(stripped), ""
    if types.is_date(kind):
        return _date(stripped), ""
    if types.is_timestamp(kind):
        return time_ticks(stripped, kind, options), ""
    if types.is_binary(kind):
        return text.encode(), ""
    raise Unfit(f"a text is not read as {kind}", "load this column from JSON lines or Parquet")


def is_beyond_exact(values: ArrowColumn) -> bool:
    """Check for a number so large that its type may have rounded it."""
    if values.type not in _WHOLE_EXACT:
        return False
    limit: Any = pa.scalar(_WHOLE_EXACT[values.type], values.type)
    large: ArrowColumn = pc.greater_equal(pc.abs(values), limit)
    return bool(pc.any(large).as_py())


def have_leading_zeros(texts: ArrowColumn) -> ArrowColumn:
    """Return whether each text begins with a zero that is not all of it."""
    single: Any = pa.scalar(1, pa.int32())
    lengths: ArrowColumn = pc.binary_length(texts)
    return pc.and_(pc.starts_with(texts, "0"), pc.greater(lengths, single))


def nulls(count: int, kind: Any) -> ArrowColumn:
    """Return a column of nulls."""
    return pa.nulls(count, kind)


def _array(result: list[Any], kind: pa.DataType) -> ArrowColumn:
    if pa.types.is_timestamp(kind):
        return pa.array(result, pa.int64()).cast(kind)
    return pa.array(result, kind)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _exact(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise Unfit("the value is not a number", _number_advice(text))
    try:
        return _EXACT.create_decimal(text)
    except DecimalException as error:
        raise Unfit("the value is not a number") from error


def _number_advice(text: str) -> str:
    if re.fullmatch(r"[+-]?[\d.]*,\d+", text):
        return "give decimal_comma=true for numbers with a decimal comma"
    return "correct it, or give it as a word for missing values by null_words"


def _whole(text: str, kind: Any) -> tuple[int, str]:
    number = _exact(text)
    if number.adjusted() > 40 or number != number.to_integral_value(context=_EXACT):
        reason = "the value has a fraction and the column is whole numbers"
        if number.adjusted() > 40:
            reason = "the value is too large for the column"
        raise Unfit(reason, "correct it, or change the column to decimal or double first")
    limit = 1 << (kind.bit_width - 1)
    value = int(number)
    if not -limit <= value < limit:
        raise Unfit(
            f"the value is beyond {kind.bit_width} bits",
            "load it into a decimal(20,0) or text column",
        )
    return value, "" if text.lstrip("-").isdigit() else "a whole number written with a fraction"


def _float(text: str, kind: Any) -> tuple[float, str]:
    if _NOT_FINITE.fullmatch(text):
        return float(text), ""
    number = _exact(text)
    nearest = float(text)
    if kind == pa.float32():
        nearest = float(np.float32(nearest))
    if not np.isfinite(nearest):
        raise Unfit("the value is too large for the column", "load it into a text column")
    is_whole = number == number.to_integral_value(context=_EXACT) if number.adjusted() < 390 else 1
    if is_whole and abs(nearest) >= _WHOLE_EXACT.get(kind, 2**53):
        printed = repr(nearest) if kind == pa.float64() else str(np.float32(nearest))
        if Decimal(printed) != number and Decimal(nearest) != number:
            raise Unfit(
                "the value has more digits than the column keeps",
                "load it into a decimal or text column",
            )
    return nearest, ""


def _decimal(text: str, kind: Any) -> Decimal:
    number = _exact(text)
    advice = "change the column to a wider decimal first, or correct the value"
    if number.adjusted() >= kind.precision - kind.scale and number:
        raise Unfit(f"the value has too many digits for {_name_decimal(kind)}", advice)
    try:
        placed = number.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    except DecimalException as error:
        raise Unfit(f"the value has too many digits for {_name_decimal(kind)}", advice) from error
    if placed != number:
        raise Unfit(f"the value has more decimals than {_name_decimal(kind)} keeps", advice)
    return placed


def _name_decimal(kind: Any) -> str:
    return f"decimal({kind.precision},{kind.scale})"


def _bool(text: str) -> bool:
    existing = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in existing:
        raise Unfit("the value is neither true nor false", "write true or false")
    return existing[text.lower()]


def _date(text: str) -> dt.date:
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return dt.date.fromisoformat(text)
    except ValueError:
        pass
    raise Unfit("the value is not a date", "write dates as 2026-01-31")


def time_ticks(text: str, kind: Any, options: LoadOptions) -> int:
    """Return the ticks since 1970 of an ISO 8601 time in a timestamp's unit. Raises Unfit."""
    advice = "write times as 2026-01-31T14:00:00Z"
    parts = TIME.fullmatch(text)
    if parts is None:
        raise Unfit("the value is not a time", advice)
    date, clock, second, fraction, offset = parts.groups()
    try:
        naive = dt.datetime.fromisoformat(f"{date}T{clock or '00:00'}:{second or '00'}")
    except ValueError as error:
        raise Unfit("the value is not a time of the calendar", advice) from error
    seconds = _seconds(naive, offset, kind, options)
    digits: str = (fraction or "").rstrip("0")
    places = _UNITS[kind.unit]
    if len(digits) > places:
        raise Unfit(
            f"the time has more decimals than the column's unit {kind.unit} keeps",
            "round it, or load it into a text column",
        )
    return int(seconds * 10**places + int(digits.ljust(places, "0") or 0))


def _seconds(naive: dt.datetime, offset: str | None, kind: Any, options: LoadOptions) -> int:
    whole = (naive - _EPOCH) // dt.timedelta(seconds=1)
    if kind.tz is None:
        if offset is not None:
            raise Unfit(
                "the time names a zone and the column has none",
                "load it into a timestamp column, or into a text column",
            )
        return whole
    if offset is not None:
        return int(whole - _offset_seconds(offset))
    if not options.time_zone:
        raise Unfit(
            "the time names no zone and the column needs one",
            "give the zone by time_zone, such as time_zone=UTC",
        )
    zone = zone_named(options.time_zone)
    earlier, later = naive.replace(tzinfo=zone), naive.replace(tzinfo=zone, fold=1)
    if earlier.utcoffset() != later.utcoffset():
        raise Unfit(
            "the time is there twice or never in the zone, because the clock was changed",
            "write it with its offset from UTC",
        )
    shift = earlier.utcoffset()
    assert shift is not None, options.time_zone
    return int(whole - shift // dt.timedelta(seconds=1))


def _offset_seconds(offset: str) -> int:
    if offset in "Zz":
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise Unfit("the offset from UTC is none", "write it as +02:00")
    size = int(hours * 3600 + minutes * 60)
    return -size if offset[0] == "-" else size
