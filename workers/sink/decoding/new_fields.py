"""Fields of records that the schema lacks: their rows and types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.names import check_column_name
from workers.schema.column_names import OWN_PREFIXES

Fields = tuple[pa.Field, ...]  # type: ignore[type-arg]

_RESERVED = ("_hoodie_", "_kafka_")
_KINDS: dict[frozenset[type], pa.DataType] = {
    frozenset({bool}): pa.bool_(),
    frozenset({int}): pa.int64(),
    frozenset({float}): pa.float64(),
    frozenset({int, float}): pa.float64(),
    frozenset({str}): pa.string(),
}


def mask_extra_values(array: Any, column_type: Any) -> npt.NDArray[np.bool_]:
    """Return which rows of `array` have a value that `column_type` has no field for."""
    mask = np.zeros(len(array), np.bool_)
    if pa.types.is_struct(column_type) and pa.types.is_struct(array.type):
        types_by_name = {child.name: child.type for child in _children(column_type)}
        for child in _children(array.type):
            values = array.field(child.name)
            if child.name in types_by_name:
                mask |= mask_extra_values(values, types_by_name[child.name])
            else:
                mask |= values.is_valid().to_numpy(zero_copy_only=False)
    elif pa.types.is_list(column_type) and pa.types.is_list(array.type):
        inner = mask_extra_values(array.flatten(), column_type.value_type)
        mask[pc.list_parent_indices(array).to_numpy()[inner]] = True
    return mask


def find_new_fields(record_type: Any, schema: pa.Schema, *, is_inferred: bool = True) -> Fields:
    """Return the whole columns that the schema needs for records of this struct.

    An inferred time becomes text, because other records may have text that is not a time. Fields
    that cannot be columns are left out: without any value, with a reserved name, or with a name
    that differs from another only by case.
    """
    names_by_lower = {name.lower(): name for name in schema.names}
    new = []
    for child in _children(record_type):
        if child.name in schema.names:
            column_type = schema.field(child.name).type
            wider = _widen(column_type, child.type, is_inferred)
            if wider != column_type:
                new.append(pa.field(child.name, wider))
        elif child.name.startswith(OWN_PREFIXES):
            continue
        elif child.name.lower() not in names_by_lower and _can_be_column(child.name):
            names_by_lower[child.name.lower()] = child.name
            if (kind := _to_column_type(child.type, is_inferred)) is not None:
                new.append(pa.field(child.name, kind))
    return tuple(new)


def merge_fields(column_type: pa.DataType, record_type: pa.DataType) -> pa.DataType:
    """Return `column_type` with the fields of `record_type` that its structs lack, or itself."""
    wider = _widen(column_type, record_type, is_inferred=False)
    assert isinstance(wider, pa.DataType)
    return wider


def infer_struct(records: Iterable[Mapping[str, Any]]) -> pa.DataType:
    """Return a struct of the fields whose values have one plain type in all these records."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        for name, value in record.items():
            if value is not None:
                kinds.setdefault(name, set()).add(type(value))
    plain_kinds = {name: _KINDS.get(frozenset(types)) for name, types in kinds.items()}
    return pa.struct([(name, kind) for name, kind in plain_kinds.items() if kind is not None])


def merge_new_fields(parts: Sequence[Fields]) -> pa.Schema:
    """Merge the new fields of several parts. Fields with conflicting types are left out."""
    merged_fields: dict[str, pa.Field[Any]] = {}
    clashing = set()
    for field in (field for part in parts for field in part):
        merged = _merge_types(merged_fields.get(field.name, field).type, field.type)
        if merged is None:
            clashing.add(field.name)
        else:
            merged_fields[field.name] = pa.field(field.name, merged)
    return pa.schema([field for name, field in merged_fields.items() if name not in clashing])


def _merge_types(left: Any, right: Any) -> Any:
    if left == right:
        return left
    if {left, right} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return _widen(left, right, False)
    return None


def _widen(column_type: Any, record_type: Any, is_inferred: bool) -> Any:
    """Return `column_type` with the fields of `record_type` that its structs lack."""
    if pa.types.is_list(column_type) and pa.types.is_list(record_type):
        element = column_type.value_field
        return pa.list_(
            element.with_type(_widen(element.type, record_type.value_type, is_inferred))
        )
    if not (pa.types.is_struct(column_type) and pa.types.is_struct(record_type)):
        return column_type
    children = {child.name: child for child in _children(column_type)}
    lower_names = {name.lower() for name in children}
    for child in _children(record_type):
        if child.name in children:
            old = children[child.name]
            children[child.name] = old.with_type(_widen(old.type, child.type, is_inferred))
        elif child.name.lower() not in lower_names and _can_be_column(child.name):
            kind = _to_column_type(child.type, is_inferred)
            if kind is not None:
                lower_names.add(child.name.lower())
                children[child.name] = pa.field(child.name, kind)
    return pa.struct(list(children.values()))


def _to_column_type(record_type: Any, is_inferred: bool) -> pa.DataType | None:
    types = pa.types
    if types.is_null(record_type):
        return None
    if types.is_timestamp(record_type) and is_inferred:
        return pa.string()
    if types.is_list(record_type):
        inner = _to_column_type(record_type.value_type, is_inferred)
        return None if inner is None else pa.list_(pa.field("element", inner))
    if types.is_struct(record_type):
        named = [
            (child.name, _to_column_type(child.type, is_inferred))
            for child in _children(record_type)
        ]
        names = {name.lower() for name, _ in named}
        usable = [(n, kind) for n, kind in named if kind is not None and _can_be_column(n)]
        return pa.struct(usable) if usable and len(names) == len(named) else None
    assert isinstance(record_type, pa.DataType)
    return record_type


def _can_be_column(name: str) -> bool:
    try:
        check_column_name(name)
    except InvalidInput:
        return False
    return not name.startswith(_RESERVED)


def _children(struct: Any) -> list[Any]:
    return [struct.field(at) for at in range(struct.num_fields)]
