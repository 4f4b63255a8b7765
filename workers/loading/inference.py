"""The type of a column that the table does not have, from all of its texts: the narrowest one that
holds each of them exactly. A key with leading zeros, and whatever is in doubt, stays text.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.loading.fields import Fields
from workers.loading.options import LoadOptions
from workers.loading.values import ArrowColumn, Unfit, have_leading_zeros, time_ticks

_DIGITS_MAX: Final = 38
_BEYOND_64_BITS_DIGITS: Final = 20
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)?(?:\.\d*)?(?:[eE][+-]?\d{1,3})?")
_COMMA_WHOLE: Final = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+|0|[1-9]\d*")
_NOT_FINITE: Final = frozenset({"nan", "NaN", "inf", "-inf", "Infinity", "-Infinity"})
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_ZONED: Final = re.compile(r"(?:[Zz]|[+-]\d\d(?::?\d\d)?)$")
_NTZ: Final = pa.timestamp("us")
_UTC: Final = pa.timestamp("us", "UTC")
_LONG_CHARS: Final = 16
_LONG_TEXTS_MAX: Final = 10_000
_YEAR_0: Final = "0000"
"""A calendar begins with year 1; such texts stand for a missing date."""
_YEAR_1_DAYS: Final = -719_162
_YEAR_1_US: Final = _YEAR_1_DAYS * 86_400_000_000
_YEAR_1_TICKS: Final = {"date": _YEAR_1_DAYS, "ntz": _YEAR_1_US, "utc": _YEAR_1_US}
"""The least value of each kind, days or microseconds since 1970."""
_SHORTEST_TIME: Final = len("2026-01-31T14:00")


class Guess:
    """What the texts of one column, block after block, may be read as."""

    def __init__(self, options: LoadOptions, *, is_thorough: bool = False) -> None:
        self._options = options
        self._is_thorough = is_thorough
        self._has_skimmed = False
        self.has_quoted_words = False
        """A quoted text was there that would be a missing value in a column of numbers."""
        self._kind = ""
        """Empty while every text was null."""
        self._whole_digits = self._decimals = 0
        self._largest = 0
        self._is_exact_double = True
        self._is_plain = True
        """No exponent, and no text for infinity."""
        self._is_64_bits = True
        self._long_texts: set[str] = set()
        """Long numbers that were checked."""

    @property
    def is_doubtful(self) -> bool:
        """Only a thorough pass over all blocks shows how many digits a decimal needs."""
        return self._has_skimmed and self._kind == "number" and not self._is_exact_double

    @property
    def is_text(self) -> bool:
        """The type is final."""
        return self._kind == "text"

    def be_text(self) -> None:
        """Take the column for text, whatever its values are."""
        self._kind = "text"

    @property
    def type(self) -> pa.DataType | None:
        """The type; None if no text was seen."""
        match self._kind:
            case "":
                return pa.string() if self.has_quoted_words else None
            case "whole":
                if self._is_64_bits:
                    return pa.int64()
                digits = max(self._whole_digits, _BEYOND_64_BITS_DIGITS)
                return pa.decimal128(digits, 0) if digits <= _DIGITS_MAX else pa.string()
            case "number":
                return self._number()
            case "bool":
                return pa.bool_()
            case "date":
                return pa.date32()
            case "ntz":
                return _UTC if self._options.time_zone else _NTZ
            case "utc":
                return _UTC
            case _:
                return pa.string()

    @property
    def fast_type(self) -> pa.DataType | None:
        """The type that Arrow may decode the next block in, to be checked by `take`; None where the
        texts are needed.
        """
        is_open = not (self._is_thorough or self._options.decimal_comma)
        types: dict[str, pa.DataType] = {"text": pa.string(), "date": pa.date32(), "utc": _UTC}
        if self._is_64_bits:
            types["whole"] = pa.int64()
        if self._is_exact_double:
            types["number"] = pa.float64()
        if not self._options.time_zone:
            types["ntz"] = _NTZ
        return types.get(self._kind) if is_open else None

    def take(self, values: ArrowColumn, fields: Fields, at: int) -> bool:
        """Take a block into account that was decoded as `fast_type`. Return whether that is exact:
        if not, nothing was taken, and `look` must get the texts.
        """
        if self._kind == "text" or values.null_count == len(values):
            return True
        if self._kind in _YEAR_1_TICKS and pc.min(values).value < _YEAR_1_TICKS[self._kind]:
            return False
        match self._kind:
            case "whole":
                if fields.has_odd_whole(at):
                    return False
                self._take_whole(values)
                return True
            case "number":
                return self._take_numbers(values, fields, at)
            case "date":
                odd = int(np.count_nonzero(fields.lengths(at) != len("2026-01-31")))
            case _:
                odd = int(np.count_nonzero(fields.lengths(at) < _SHORTEST_TIME))
        return bool(odd == values.null_count)

    def _take_numbers(self, values: ArrowColumn, fields: Fields, at: int) -> bool:
        if fields.has_odd_number(at) or not pc.all(pc.is_finite(values)).as_py():
            return False
        texts = fields.long_texts(at, _LONG_CHARS)
        if texts is None or not set(texts).isdisjoint(self._options.null_words):
            return False
        self._has_skimmed = True
        if new := [text for text in texts if text not in self._long_texts]:
            self.look_at(new)
            if len(self._long_texts) < _LONG_TEXTS_MAX:
                self._long_texts.update(new)
        return True

    def _number(self) -> pa.DataType:
        if self._is_exact_double:
            return pa.float64()
        digits = max(self._whole_digits, len(str(self._largest))) + self._decimals
        if self._is_plain and digits <= _DIGITS_MAX:
            return pa.decimal128(digits, self._decimals)
        return pa.string()

    def look(self, texts: ArrowColumn) -> None:
        """Take the texts of one more block into account; nulls do not count."""
        if self._kind == "text" or texts.null_count == len(texts):
            return
        if self._kind in ("", "whole") and self._are_64_bits(texts):
            self._kind = "whole"
            return
        if not self._is_thorough and self._is_as_before(texts):
            self._has_skimmed = True
            return
        distinct = texts.unique().drop_null().to_pylist()
        self.look_at(distinct)

    def look_at_whole(self, value: int) -> bool:
        """Return whether the fast check suffices for one number; otherwise call `look_at`."""
        if self._kind not in ("whole", "number") or not -(2**53) < value < 2**53:
            return False
        self._largest = max(self._largest, abs(value))
        return True

    def look_at(self, distinct: list[str]) -> None:
        """Take distinct texts without nulls into account."""
        for kind, fits in (
            ("whole", self._are_whole),
            ("number", self._are_numbers),
            ("bool", _are_bools),
            ("date", _are_dates),
            ("ntz", self._are_naive),
            ("utc", self._are_zoned),
        ):
            wider = "number" if (self._kind, kind) == ("number", "whole") else kind
            is_open = self._kind in ("", kind) or {self._kind, kind} == {"whole", "number"}
            if is_open and fits(distinct):
                self._kind = wider
                return
        self._kind = "text"

    def _is_as_before(self, texts: ArrowColumn) -> bool:
        """Return whether the fast check suffices for a block of the kind of those before."""
        if self._options.decimal_comma or self._kind not in ("number", "ntz", "utc"):
            return False
        kind: Any = {"number": pa.float64(), "ntz": _NTZ, "utc": _UTC}[self._kind]
        lengths: ArrowColumn = pc.binary_length(texts)
        ends: Any = pc.min_max(lengths).as_py()
        try:
            values: Any = texts.cast(kind)
        except pa.ArrowInvalid:
            return False
        if self._kind != "number":
            has_year_0 = pc.any(pc.starts_with(texts, _YEAR_0)).as_py()
            return bool(ends["min"] >= _SHORTEST_TIME) and not has_year_0
        zeros = pc.and_not(have_leading_zeros(texts), pc.starts_with(texts, "0."))
        signs = pc.or_(pc.starts_with(texts, "+"), pc.starts_with(texts, "-0"))
        is_odd = pc.any(pc.or_(zeros, signs)).as_py() or not pc.all(pc.is_finite(values)).as_py()
        return not is_odd and bool(ends["max"] < _LONG_CHARS)

    def _are_64_bits(self, texts: ArrowColumn) -> bool:
        """Return whether the fast check suffices for a block."""
        if self._options.decimal_comma:
            return False
        if pc.any(have_leading_zeros(texts)).as_py() or pc.any(pc.starts_with(texts, "-0")).as_py():
            return False
        try:
            values: Any = texts.cast(pa.int64())
        except pa.ArrowInvalid:
            return False
        self._take_whole(values)
        return True

    def _take_whole(self, values: ArrowColumn) -> None:
        ends: Any = pc.min_max(values).as_py()
        largest = max(abs(ends["min"]), abs(ends["max"]))
        self._whole_digits = max(self._whole_digits, len(str(largest)))
        self._is_exact_double = self._is_exact_double and largest <= 2**53

    def _are_whole(self, distinct: list[str]) -> bool:
        pattern = _COMMA_WHOLE if self._options.decimal_comma else _WHOLE
        plain = [self._plain(text) for text in distinct]
        if not all(_WHOLE.fullmatch(text) for text in plain) or "-0" in plain:
            return False
        if self._options.decimal_comma and not all(map(pattern.fullmatch, distinct)):
            return False
        for text in plain:
            number = int(text) if len(text) <= _DIGITS_MAX + 1 else 10**_DIGITS_MAX
            self._whole_digits = max(self._whole_digits, len(text.lstrip("-")))
            self._is_64_bits = self._is_64_bits and -(2**63) <= number < 2**63
            self._is_exact_double = self._is_exact_double and _is_exact(text)
        return True

    def _are_numbers(self, distinct: list[str]) -> bool:
        plain = [self._plain(text) for text in distinct]
        finite = [text for text in plain if text not in _NOT_FINITE]
        if not finite or not all(_NUMBER.fullmatch(text) and text[-1:] != "" for text in finite):
            return False
        if not all(any(sign.isdigit() for sign in text) for text in finite):
            return False
        for text in plain:
            is_plain = text not in _NOT_FINITE and "e" not in text.lower()
            self._is_plain = self._is_plain and is_plain
            if is_plain:
                whole, _, decimals = text.lstrip("-").partition(".")
                self._whole_digits = max(self._whole_digits, len(whole))
                self._decimals = max(self._decimals, len(decimals))
            if self._is_exact_double and text not in _NOT_FINITE:
                self._is_exact_double = _is_exact(text)
        return True

    def _plain(self, text: str) -> str:
        stripped = text.strip()
        if self._options.decimal_comma and "," not in stripped and "." not in stripped:
            return stripped
        if self._options.decimal_comma:
            whole, _, decimals = stripped.partition(",")
            if "." in whole and not re.fullmatch(r"-?\d{1,3}(?:\.\d{3})+", whole):
                return "?"
            return f"{whole.replace('.', '')}.{decimals}" if decimals else whole.replace(".", "")
        return stripped

    def _are_naive(self, distinct: list[str]) -> bool:
        return _are_times(distinct, _NTZ, self._options, is_zoned=False)

    def _are_zoned(self, distinct: list[str]) -> bool:
        return _are_times(distinct, _UTC, self._options, is_zoned=True)


def _is_exact(text: str) -> bool:
    """Return whether a double distinguishes this number from others of as many digits."""
    if len(text) < _LONG_CHARS and "e" not in text.lower():
        return True
    nearest = float(text)
    if nearest in (float("inf"), float("-inf")):
        return False
    number = Decimal(text)
    return Decimal(repr(nearest)) == number or Decimal(f"{nearest:.17g}") == number


def _are_bools(distinct: list[str]) -> bool:
    return all(text.strip().lower() in ("true", "false") for text in distinct)


def _are_dates(distinct: list[str]) -> bool:
    if any(text.startswith(_YEAR_0) for text in distinct):
        return False
    return all(map(_DATE.fullmatch, distinct)) and _cast_well(distinct, pa.date32())


def _are_times(distinct: list[str], kind: Any, options: LoadOptions, *, is_zoned: bool) -> bool:
    if any(len(text) < _SHORTEST_TIME or text.startswith(_YEAR_0) for text in distinct):
        return False
    if any((_ZONED.search(text, len("2026-01-31")) is not None) != is_zoned for text in distinct):
        return False
    if _cast_well(distinct, kind):
        return True
    try:
        for text in distinct:
            time_ticks(text.strip(), kind, options)
    except Unfit:
        return False
    return True


def _cast_well(distinct: list[str], kind: pa.DataType) -> bool:
    try:
        pa.array(distinct).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
