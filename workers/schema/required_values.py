"""Rows that lack a value that the schema requires, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.avro_schema import AvroType, Field, ListOf, MapOf, Place, Struct


def find_missing_required(field: Field, column: pa.ChunkedArray[Any]) -> Iterator[tuple[str, Any]]:
    """Yield (path, mask over the rows of the column) of each required place that is null.

    Below a null nothing is missing. Values are read only where the schema requires some.
    """
    lacks_none = field.place.is_nullable or not column.null_count
    if lacks_none and not _has_required_inside(field.place.type):
        return
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    rows = np.arange(len(values))
    for path, lacking in _find_missing(field.place, field.name, values, rows):
        mask = np.zeros(len(values), np.bool_)
        mask[lacking] = True
        yield path, pa.array(mask)


def _has_required(place: Place) -> bool:
    return not place.is_nullable or _has_required_inside(place.type)


def _has_required_inside(kind: AvroType) -> bool:
    match kind:
        case Struct(fields):
            return any(_has_required(field.place) for field in fields)
        case ListOf(inner) | MapOf(inner):
            return _has_required(inner)
        case _:
            return False


def _find_missing(
    place: Place, path: str, values: Any, rows: np.ndarray[Any, Any]
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the paths and rows. `rows` has for each value its row in the column."""
    if not place.is_nullable and values.null_count:
        yield path, rows[_mask(pc.is_null(values))]
    if not _has_required_inside(place.type) or pa.types.is_null(values.type):
        return
    is_there = _mask(pc.is_valid(values))
    values, rows = values.filter(pa.array(is_there)), rows[is_there]
    match place.type:
        case Struct(fields):
            for field in fields:
                at = values.type.get_field_index(field.name)
                if at >= 0:
                    inner = pc.struct_field(values, at)
                    yield from _find_missing(field.place, f"{path}.{field.name}", inner, rows)
                elif not field.place.is_nullable and field.default is None:
                    yield f"{path}.{field.name}", rows
        case ListOf(inner_place):
            inner, parents = pc.list_flatten(values), pc.list_parent_indices(values)
            yield from _find_missing(
                inner_place, f"{path}.element", inner, rows[parents.to_numpy()]
            )
        case MapOf(inner_place):
            entries = values.cast(_as_list(values.type))
            inner = pc.struct_field(pc.list_flatten(entries), 1)
            parents = pc.list_parent_indices(entries).to_numpy()
            yield from _find_missing(inner_place, f"{path}.value", inner, rows[parents])
        case _:
            raise AssertionError(place)  # Nothing else has an inside.


def _as_list(map_type: Any) -> pa.DataType:
    """Return a map's type as a list of structs, which can be flattened."""
    key, value = pa.field("key", map_type.key_type), pa.field("value", map_type.item_type)
    return pa.list_(pa.field("entries", pa.struct([key, value])))


def _mask(is_true: Any) -> np.ndarray[Any, Any]:
    return np.asarray(is_true.to_numpy(zero_copy_only=False), np.bool_)
