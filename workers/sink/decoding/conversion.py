"""Conversion of parsed columns to the table's types, a whole column at a time.

Text parsers read most types directly. The others arrive as plainer types: dates as text or days,
times as text or whole numbers in the column's unit, bytes as base 64, maps as lists of pairs.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.sink.decoding.chunks import Undecodable

Mask = npt.NDArray[np.bool_]
_CAUSE_CHARS_MAX = 300
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_PER_DAY = {"day": 1, "ms": 86_400_000, "us": 86_400_000_000}


def to_table(columns: dict[str, Any], schema: pa.Schema, rows: int, *, is_finite: bool) -> pa.Table:
    """Convert parsed columns to a table with the schema; missing columns are null.

    `is_finite` rejects infinite numbers, for formats that do not have them. Raises Undecodable if a
    value does not fit its column.
    """
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        if column is None:
            column = pa.nulls(rows, field.type)
        try:
            array = convert(column, field.type)
            if is_ranged(field.type):
                _check_range(array, is_finite)
        except pa.ArrowException as error:
            raise Undecodable(f"{field.name}: {format_cause(error)}") from error
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=schema)


def convert(array: Any, target: pa.DataType) -> Any:
    """Convert the array to the target type, nested values included. Raises ArrowInvalid if a value
    does not fit.
    """
    if array.type == target:
        return array
    types = pa.types
    if types.is_struct(target):
        children = [
            convert(array.field(field.name), field.type)
            if array.type.get_field_index(field.name) >= 0
            else pa.nulls(len(array), field.type)
            for field in _fields(target)
        ]
        return pa.StructArray.from_arrays(children, fields=_fields(target), mask=array.is_null())
    if types.is_list(target):
        values = convert(array.values, target.value_type)
        lists: Any = pa.ListArray
        return lists.from_arrays(array.offsets, values, target, mask=array.is_null())
    if types.is_map(target):
        pairs = array.values
        keys = convert(pairs.field(0), target.key_type)
        if keys.null_count or pairs.null_count:
            raise pa.ArrowInvalid("a key of a map is null")
        items = convert(pairs.field(1), target.item_type)
        maps: Any = pa.MapArray
        return maps.from_arrays(array.offsets, keys, items, target, mask=array.is_null())
    if types.is_binary(target) and types.is_string(array.type):
        return pa.array([_decode_base64(text) for text in array.to_pylist()], target)
    return array.cast(target)


def find_missing_values(table: pa.Table, required: Collection[str]) -> dict[int, str]:
    """Return the rows without a required value -> the cause, which names the column."""
    causes: dict[int, str] = {}
    for name, field in zip(table.column_names, table.schema, strict=True):
        field = field.with_nullable(field.nullable and name not in required)
        if _has_required(field):
            column = table.column(name).combine_chunks()
            for row in np.flatnonzero(_find_missing(column, field)).tolist():
                causes.setdefault(row, f"{name} has no value, and must have one")
    return causes


def format_cause(error: Exception) -> str:
    """Format the error as one short line."""
    return " ".join(str(error).split())[:_CAUSE_CHARS_MAX]


def is_ranged(column_type: Any) -> bool:
    """Check whether the type has values to reject: non-finite numbers, times out of range."""
    types = pa.types
    if types.is_list(column_type):
        return is_ranged(column_type.value_type)
    if types.is_map(column_type):
        return is_ranged(column_type.item_type)
    if types.is_struct(column_type):
        return any(is_ranged(child.type) for child in _fields(column_type))
    return bool(
        types.is_floating(column_type)
        or types.is_timestamp(column_type)
        or types.is_date32(column_type)
    )


def _check_range(array: Any, is_finite: bool) -> None:
    """Raises ArrowInvalid outside of the years 1 to 9999, the range of all readers."""
    types = pa.types
    if types.is_floating(array.type):
        if is_finite and pc.all(pc.is_finite(array)).as_py() is False:
            raise pa.ArrowInvalid("not a finite number")
    elif types.is_timestamp(array.type) or types.is_date32(array.type):
        unit = "day" if types.is_date32(array.type) else array.type.unit
        low, high = (at * _PER_DAY[unit] for at in (_FIRST_DAY, _LAST_DAY + 1))
        raw = array.view(pa.int32() if unit == "day" else pa.int64())
        bounds: Any = pc.min_max(raw).as_py()
        if bounds["min"] is not None and not low <= bounds["min"] <= bounds["max"] < high:
            raise pa.ArrowInvalid("not in the years 1 to 9999")
    elif types.is_struct(array.type):
        for child in array.flatten():
            _check_range(child, is_finite)
    elif types.is_list(array.type):
        _check_range(array.flatten(), is_finite)
    elif types.is_map(array.type):
        _check_range(array.items, is_finite)


def _find_missing(array: Any, field: Any) -> Mask:
    """Return which rows lack a required value. The column or fields in it are required."""
    is_null: Mask = array.is_null().to_numpy(zero_copy_only=False)
    mask = is_null.copy() if not field.nullable else np.zeros(len(array), np.bool_)
    if pa.types.is_struct(field.type):
        for child in filter(_has_required, _fields(field.type)):
            mask |= _find_missing(array.field(child.name), child) & ~is_null
    elif pa.types.is_list(field.type) and _has_required(field.type.value_field):
        lacks = _find_missing(array.flatten(), field.type.value_field)
        mask[pc.list_parent_indices(array).to_numpy()[lacks]] = True
    return mask


def _has_required(field: Any) -> bool:
    if not field.nullable:
        return True
    if pa.types.is_struct(field.type):
        return any(map(_has_required, _fields(field.type)))
    return pa.types.is_list(field.type) and _has_required(field.type.value_field)


def _fields(struct: Any) -> list[Any]:
    return [struct.field(at) for at in range(struct.num_fields)]


def _decode_base64(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise pa.ArrowInvalid("not base 64") from error
