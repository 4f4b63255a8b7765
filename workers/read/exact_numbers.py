"""Compare the values of a numeric column with a number, without rounding either of them.

A column holds only some numbers: integers in a range, decimals of one scale, or doubles. A number
between two of them is replaced by the lower one, and the sign of the comparison changes with it:
`n < 2.5` becomes `n <= 2`. So both sides have the column's type and nothing is converted.

A float, or a text that is the shortest spelling of a double, names that number: `0.1` equals the
double 0.1 in a double column and the decimal 0.10 in a decimal column.
"""

from __future__ import annotations

import math
import re
import sys
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import pyarrow as pa

Compared: TypeAlias = "tuple[str, Any] | bool"
"""A sign and a value of the column's type. True if every value meets the comparison, False if none
does; null meets neither it nor its negation.
"""
SIGNS: Final = ("=", "!=", "<", "<=", ">", ">=")
_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_DIGITS_MAX = 400
"""More digits before the point than any type holds."""


def is_numeric(kind: Any) -> bool:
    """Whether numbers are compared with columns of this type."""
    types = pa.types
    return types.is_integer(kind) or types.is_decimal(kind) or types.is_floating(kind)


def parse_number(text: str) -> Decimal | None:
    """Return the number that the text spells, or None."""
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Decimal(text.strip())
    except InvalidOperation:  # The exponent has too many digits.
        return None


def to_number(value: Any) -> Decimal | None:
    """Return the value of a number of Python, NumPy or Arrow, or None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, Decimal)):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(float(value)))
    try:
        scalar: Any = value if isinstance(value, pa.Scalar) else pa.scalar(value)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return to_number(scalar.as_py()) if is_numeric(scalar.type) and scalar.is_valid else None


def compare_exactly(sign: str, number: Decimal, kind: pa.DataType) -> Compared:
    """Return the comparison of a column of the type `kind` with `number` in values of that type.

    `sign` is one of `SIGNS`.
    """
    if number.is_nan():
        return sign == "!="
    floor: Any
    if pa.types.is_floating(kind):
        floor, is_equal = _floor_double(number)
    else:
        floor, is_equal = _floor_exact(number, kind)
    if floor is None:
        return sign in (("!=", "<", "<=") if number > 0 else ("!=", ">", ">="))
    if is_equal:
        return sign, floor
    if sign in ("=", "!="):
        return sign == "!="
    return ("<=" if sign in ("<", "<=") else ">"), floor


def _floor_exact(number: Decimal, kind: Any) -> tuple[Any, bool]:
    """Return the greatest value of the type up to `number`, and whether it equals the number.

    The value is None if `number` is outside of the type's range.
    """
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    if not number.is_finite() or number.adjusted() + scale > _DIGITS_MAX:
        return None, False
    sign, digits, exponent = number.as_tuple()
    scaled = Decimal((sign, digits, int(exponent) + scale))
    floor = scaled.to_integral_value(ROUND_FLOOR)
    whole = int(floor)
    lowest, highest = _whole_range(kind)
    if scaled < lowest or scaled > highest:
        return None, False
    if pa.types.is_decimal(kind):
        sign, digits, _ = Decimal(whole).as_tuple()
        return Decimal((sign, digits, -scale)), floor == scaled
    return whole, floor == scaled


def _whole_range(kind: Any) -> tuple[int, int]:
    """Return the least and the greatest value in units of the last digit."""
    if pa.types.is_decimal(kind):
        highest = 10**kind.precision - 1
        return -highest, highest
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def _floor_double(number: Decimal) -> tuple[float, bool]:
    double = float(number)
    if Decimal(repr(double)) == number:
        return double, True
    if math.isinf(double):
        return (sys.float_info.max if double > 0 else double), False
    exact = Decimal(double)
    if exact > number:
        return math.nextafter(double, -math.inf), False
    return double, exact == number
