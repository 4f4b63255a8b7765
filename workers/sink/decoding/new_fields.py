"""Fields that records bring and the schema has not: which rows have them, and of which types."""

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


def brought(array: Any, column_type: Any) -> npt.NDArray[np.bool_]:
    """Which rows of `array` have a value where `column_type` has no place for it."""
    mask = np.zeros(len(array), np.bool_)
    if pa.types.is_struct(column_type) and pa.types.is_struct(array.type):
        known = {child.name: child.type for child in _children(column_type)}
        for child in _children(array.type):
            values = array.field(child.name)
            if child.name in known:
                mask |= brought(values, known[child.name])
            else:
                mask |= values.is_valid().to_numpy(zero_copy_only=False)
    elif pa.types.is_list(column_type) and pa.types.is_list(array.type):
        inner = brought(array.flatten(), column_type.value_type)
        mask[pc.list_parent_indices(array).to_numpy()[inner]] = True
    return mask


def new_fields_of(record_type: Any, schema: pa.Schema, *, is_inferred: bool = True) -> Fields:
    """What the schema would need to take in records of this struct, as whole columns.

    An inferred time is text, as it would be in a batch where not every text looks like one. Not
    those that cannot be columns: without any value, of a reserved name, or of a name that
    differs from another one's by case only.
    """
    known = {name.lower(): name for name in schema.names}
    new = []
    for child in _children(record_type):
        if child.name in schema.names:
            column_type = schema.field(child.name).type
            wider = _wider(column_type, child.type, is_inferred)
            if wider != column_type:
                new.append(pa.field(child.name, wider))
        elif child.name.startswith(OWN_PREFIXES):
            continue
        elif child.name.lower() not in known and _may_be_column(child.name):
            known[child.name.lower()] = child.name
            if (kind := _column_type(child.type, is_inferred)) is not None:
                new.append(pa.field(child.name, kind))
    return tuple(new)


def with_fields_of(column_type: pa.DataType, record_type: pa.DataType) -> pa.DataType:
    """`column_type` with the fields of `record_type` that its structs lack; itself if none."""
    wider = _wider(column_type, record_type, is_inferred=False)
    assert isinstance(wider, pa.DataType)
    return wider


def kinds_of(records: Iterable[Mapping[str, Any]]) -> pa.DataType:
    """The struct of the fields that have values of one plain kind in all these records."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        for name, value in record.items():
            if value is not None:
                kinds.setdefault(name, set()).add(type(value))
    plain_kinds = {name: _KINDS.get(frozenset(types)) for name, types in kinds.items()}
    return pa.struct([(name, kind) for name, kind in plain_kinds.items() if kind is not None])


def together(parts: Sequence[Fields]) -> pa.Schema:
    """The new fields of several parts; one that is not the same in all of them is in none."""
    merged_fields: dict[str, pa.Field[Any]] = {}
    clashing = set()
    for field in (one for part in parts for one in part):
        merged = _merged(merged_fields.get(field.name, field).type, field.type)
        if merged is None:
            clashing.add(field.name)
        else:
            merged_fields[field.name] = pa.field(field.name, merged)
    return pa.schema([one for name, one in merged_fields.items() if name not in clashing])


def _merged(left: Any, right: Any) -> Any:
    if left == right:
        return left
    if {left, right} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return _wider(left, right, False)
    return None


def _wider(column_type: Any, record_type: Any, is_inferred: bool) -> Any:
    """`column_type` with the fields of `record_type` that its structs lack."""
    if pa.types.is_list(column_type) and pa.types.is_list(record_type):
        element = column_type.value_field
        return pa.list_(
            element.with_type(_wider(element.type, record_type.value_type, is_inferred))
        )
    if not (pa.types.is_struct(column_type) and pa.types.is_struct(record_type)):
        return column_type
    children = {child.name: child for child in _children(column_type)}
    taken = {name.lower() for name in children}
    for child in _children(record_type):
        if child.name in children:
            old = children[child.name]
            children[child.name] = old.with_type(_wider(old.type, child.type, is_inferred))
        elif child.name.lower() not in taken and _may_be_column(child.name):
            kind = _column_type(child.type, is_inferred)
            if kind is not None:
                taken.add(child.name.lower())
                children[child.name] = pa.field(child.name, kind)
    return pa.struct(list(children.values()))


def _column_type(record_type: Any, is_inferred: bool) -> pa.DataType | None:
    types = pa.types
    if types.is_null(record_type):
        return None
    if types.is_timestamp(record_type) and is_inferred:
        return pa.string()
    if types.is_list(record_type):
        inner = _column_type(record_type.value_type, is_inferred)
        return None if inner is None else pa.list_(pa.field("element", inner))
    if types.is_struct(record_type):
        named = [(one.name, _column_type(one.type, is_inferred)) for one in _children(record_type)]
        names = {name.lower() for name, _ in named}
        kept = [(n, kind) for n, kind in named if kind is not None and _may_be_column(n)]
        return pa.struct(kept) if kept and len(names) == len(named) else None
    assert isinstance(record_type, pa.DataType)
    return record_type


def _may_be_column(name: str) -> bool:
    try:
        check_column_name(name)
    except InvalidInput:
        return False
    return not name.startswith(_RESERVED)


def _children(struct: Any) -> list[Any]:
    return [struct.field(at) for at in range(struct.num_fields)]
