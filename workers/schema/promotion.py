"""Stored values under the later type of their column, where Apache Hudi promotes it.

Wider than `wider_types`: Hudi also lets a writer turn numbers into floating point, beyond 2^53 too,
and numbers, dates and bytes into text. Sluice never changes a column like this, but reads such
files as Hudi does: numbers become text as in Java.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from workers.errors import UnsupportedTable
from workers.files.avro_schema import AvroType, ListOf, MapOf, Place, Scalar, Struct
from workers.schema.wider_types import can_hold

_TO: Final = {
    "int": ("float", "double", "string"),
    "long": ("float", "double", "string"),
    "float": ("string",),
    "double": ("string",),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""Plain types -> those that they become in addition to `wider_types.can_hold`."""
_POSITIONAL = (-3, 7)
"""Exponents from the first of which and below the second Java writes no exponent."""


def can_promote(target: AvroType, stored: AvroType) -> bool:
    """Check if a stored value can be read as one of the target type."""
    if can_hold(target, stored):
        return True
    match target, stored:
        case Scalar(logical=None), Scalar(logical=None):
            return target.kind in _TO.get(stored.kind, ())
        case Scalar(logical=None), Scalar(logical="date"):
            return target.kind == "string"
        case ListOf(left), ListOf(right):
            return _can_promote_place(left, right)
        case MapOf(left), MapOf(right):
            return _can_promote_place(left, right)
        case Struct(), Struct():
            both = ((field, stored.field(field.name)) for field in target.fields)
            return all(
                field.place.is_nullable
                if other is None
                else _can_promote_place(field.place, other.place)
                for field, other in both
            )
        case _:
            return False


def _can_promote_place(target: Place, stored: Place) -> bool:
    return can_promote(target.type, stored.type)


def promote(
    column: pa.ChunkedArray[Any], target: pa.DataType, *, name: str
) -> pa.ChunkedArray[Any]:
    """Convert the column's values to the type that the table has now; `name` is for the error.
    Raises UnsupportedTable if they do not fit.
    """
    try:
        parts: Any = [_promote_array(chunk, target) for chunk in column.chunks]
        as_type: Any = target
        cast_column: Any = pa.chunked_array(parts, as_type)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise UnsupportedTable(
            "stored values do not fit the type that the column was given since",
            column=name,
            stored=column.type,
            table=target,
        ) from error
    return cast("pa.ChunkedArray[Any]", cast_column)


def _promote_array(array: Any, target: Any) -> Any:
    stored = array.type
    if pa.types.is_nested(stored):
        return pa.array(
            [_promote_value(cell, stored, target) for cell in array.to_pylist()], target
        )
    if pa.types.is_floating(stored) and pa.types.is_string(target):
        encoded = array.dictionary_encode()
        texts = pa.array(
            [_format_like_java(value, stored) for value in encoded.dictionary.to_pylist()]
        )
        return pa.DictionaryArray.from_arrays(encoded.indices, texts.cast(target)).cast(target)
    # Beyond 2^53 a double holds the nearest that it can, as in Java.
    return array.cast(target, safe=not pa.types.is_floating(target))


def _promote_value(cell: Any, stored: Any, target: Any) -> Any:
    if cell is None or stored == target:
        return cell
    if pa.types.is_struct(stored):
        types_by_name = {field.name: field.type for field in stored}
        return {
            field.name: _promote_value(cell[field.name], types_by_name[field.name], field.type)
            for field in target
            if field.name in types_by_name
        }
    if pa.types.is_map(stored):
        return [
            (key, _promote_value(value, stored.item_type, target.item_type)) for key, value in cell
        ]
    if pa.types.is_list(stored):
        return [_promote_value(value, stored.value_type, target.value_type) for value in cell]
    return _promote_array(pa.array([cell], stored), target)[0].as_py()


def _format_like_java(value: float, kind: pa.DataType) -> str:
    """Format as `Double.toString` and `Float.toString`: the shortest digits that mean this
    value.
    """
    single = np.float32(value) if pa.types.is_float32(kind) else np.float64(value)
    if not np.isfinite(single):
        return "NaN" if np.isnan(single) else ("Infinity" if single > 0 else "-Infinity")
    text = np.format_float_scientific(single, unique=True, trim="-")
    mantissa, _, exponent = text.partition("e")
    sign, digits, power = mantissa[: mantissa.startswith("-")], mantissa.lstrip("-"), int(exponent)
    digits = digits.replace(".", "")
    if not _POSITIONAL[0] <= power < _POSITIONAL[1]:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    whole, rest = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
    return f"{sign}{whole}.{rest or '0'}"
