"""The marks in a table of versions: their keys, and which of them are deletes.

A version may be a delete, by the column `DELETED`, or lack a column, by the boolean column `ABSENT`
+ its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import MalformedTable
from workers.files.meta_columns import RECORD_KEY

DELETED = "_sluice_deleted"
"""An optional int8 column of versions: null and ROW mark a row."""
ROW, DELETE, DELETE_NOW, MOVED_AWAY = 0, 1, 2, 3
"""The last one is for column groups: what stood there was taken to another partition, with all that
is remembered of its key.
"""
ABSENT = "_sluice_absent."
DELETED_FIELD = pa.field(DELETED, pa.int8())

Positions: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
Mask: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Keys:
    """The record keys of a table of versions, as numbers."""

    distinct: pa.Array[Any]
    codes: Positions
    """Per version, the position of its key in `distinct`, which is in order of first appearance."""

    @classmethod
    def of(cls, versions: pa.Table) -> Keys:
        """Number the record key column of `versions`. Raises MalformedTable for a row without a
        key.
        """
        column = combine_chunks(versions.column(RECORD_KEY))
        if column.null_count:
            raise MalformedTable("rows have no record key", rows=column.null_count)
        encoded = column.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        return cls(encoded.dictionary, np.asarray(codes, dtype=np.int64))

    @property
    def are_unique(self) -> bool:
        """True if every version is the only one of its key."""
        return len(self.distinct) == len(self.codes)


def are_rising(keys: pa.ChunkedArray[Any]) -> bool:
    """Check if each key is greater than the one before, as in many batches: then all are distinct,
    and none has to be hashed.
    """
    column = combine_chunks(keys)
    if len(column) < 2:
        return True
    is_greater: Any = pc.greater(column.slice(1), column.slice(0, len(column) - 1))
    return pc.all(is_greater, skip_nulls=False).as_py() is True


def without_deletes(versions: pa.Table) -> pa.Table:
    """Return the rows that are not deletes, without the column `DELETED`."""
    if DELETED not in versions.column_names:
        return versions
    rows = versions.drop_columns([DELETED])
    is_delete = kinds(versions) != ROW
    return rows.filter(pa.array(~is_delete)) if is_delete.any() else rows


def kinds(versions: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """Return ROW, DELETE, DELETE_NOW or MOVED_AWAY per version; ROW without a column `DELETED`."""
    if DELETED not in versions.column_names:
        return np.zeros(versions.num_rows, dtype=np.int8)
    column: Any = versions.column(DELETED)
    return np.asarray(pc.fill_null(column, ROW).to_numpy(), dtype=np.int8)


def with_columns(rows: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Return `rows` with these columns, each in the place of the one of its name, new ones last.

    Sets all columns together: separate steps would copy the schema each time.
    """
    if not columns:
        return rows
    arrays: dict[str, Any] = dict(zip(rows.column_names, rows.columns, strict=True))
    fields = {field.name: field for field in rows.schema}
    for name, column in columns.items():
        arrays[name] = column
        fields.setdefault(name, pa.field(name, column.type))
    return pa.table(list(arrays.values()), schema=pa.schema(list(fields.values())))


def combine_chunks(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """Return the column in one piece, copied only if it has several."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    assert isinstance(array, pa.Array), "more text than one Arrow array holds"
    return array


def to_take_indices(at: Positions, missing: Mask | None = None) -> pa.Array[Any]:
    """Convert positions to Arrow's; null where one is missing."""
    positions: Any = pa.array(at, mask=missing)
    return cast("pa.Array[Any]", positions)


def null_negative_indices(at: Positions) -> pa.Array[Any]:
    """Convert positions to Arrow's, null where a position is below zero."""
    missing = at < 0
    return to_take_indices(at, missing) if missing.any() else to_take_indices(at)
