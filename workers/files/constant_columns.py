"""Dictionaries of Parquet columns: which columns get one, and how texts that have one are read.

A dictionary hashes every value; where nearly all differ, as in keys, that costs a third of the
writing time and makes the file larger. Reading texts as numbers of their dictionary and decoding
them afterwards takes half the time, and less where rows are left out in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_ENCODED_BYTES_MAX: Final = 4
"""Per value, before compression. A text outside a dictionary takes its length and four bytes."""
_ARRAY_BYTES: Final = 1 << 30
"""Of text in one Arrow array; its limit is twice that."""
_SAMPLED_ROWS = 4_096
_FEW_ROWS = 512


def build_constant(text: pa.Scalar[Any], rows: int) -> pa.Array[Any]:
    """Build this number of rows of one text, as a dictionary: Parquet then hashes and compares no
    row, and writes the same bytes.
    """
    numbers = pa.repeat(pa.scalar(0, pa.int32()), rows)
    return pa.DictionaryArray.from_arrays(numbers, pa.array([text.as_py()], text.type))


class ConstantColumns:
    """Text columns of a file that hold the same value in all rows, made into dictionaries row group
    by row group. The first row group decides which; a later one that differs has both values in its
    dictionary.
    """

    def __init__(self) -> None:
        self._names: list[str] | None = None

    def encode(self, group: pa.Table) -> pa.Table:
        """Return the rows with these columns as dictionaries."""
        if self._names is None:
            self._names = [name for name in group.column_names if _is_repeated(group.column(name))]
        for name in self._names:
            column = group.column(name)
            if _is_repeated(column):
                encoded: Any = build_constant(column[0], len(column))
            else:
                encoded = column.dictionary_encode()
            at = group.column_names.index(name)
            group = group.set_column(at, pa.field(name, encoded.type), encoded)
        return group


def _is_repeated(column: pa.ChunkedArray[Any]) -> bool:
    if not len(column) or not pa.types.is_string(column.type) or column[0] != column[-1]:
        return False
    is_same: Any = pc.all(pc.equal(column, column[0]), skip_nulls=False)
    return is_same.as_py() is True


def repeating_columns(rows: pa.Table) -> list[str]:
    """Return Parquet's paths of the columns whose values repeat, judged by rows from everywhere.

    Columns inside others are assumed to repeat.
    """
    few = _from_everywhere(rows, _FEW_ROWS)
    return [
        path
        for field, some, column in zip(rows.schema, few.columns, rows.columns, strict=True)
        if pa.types.is_nested(field.type) or _repeats(some, column)
        for path in _leaves(field.name, field.type)
    ]


def _repeats(few: pa.ChunkedArray[Any], column: pa.ChunkedArray[Any]) -> bool:
    """Return True if the values repeat. A few rows decide most columns: if only a quarter of them
    differ, more rows add hardly any value, and if all differ nearly all rows do.
    """
    seen = len(few.unique())
    if len(few) == _FEW_ROWS and not _FEW_ROWS // 4 < seen < _FEW_ROWS:
        return seen < _FEW_ROWS
    if len(few) == len(column):
        return 2 * seen <= len(few)
    sampled = _from_everywhere(pa.table({"": column}), _SAMPLED_ROWS).column(0)
    return 2 * len(sampled.unique()) <= len(sampled)


def _from_everywhere(rows: pa.Table, count: int) -> pa.Table:
    if rows.num_rows <= count:
        return rows
    return rows.take(np.linspace(0, rows.num_rows - 1, count).astype(np.int64))


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of Parquet's own columns below a field."""
    if isinstance(kind, pa.StructType):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif isinstance(kind, pa.MapType):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif isinstance(kind, pa.ListType | pa.LargeListType):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def find_dictionary_texts(footer: pq.FileMetaData, schema: pa.Schema) -> frozenset[str]:
    """Return the text columns of a file that are best read as dictionaries, judged by its first row
    group. `schema` is the file's own. A wrong guess costs time and changes no value.
    """
    if not footer.num_row_groups:
        return frozenset()
    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    group = footer.row_group(0)
    chunks = (group.column(at) for at in range(group.num_columns)) if texts else ()
    return frozenset(
        chunk.path_in_schema
        for chunk in chunks
        if chunk.path_in_schema in texts
        and chunk.total_uncompressed_size <= _ENCODED_BYTES_MAX * chunk.num_values
    )


def decode_texts(rows: pa.Table) -> pa.Table:
    """Return `rows` with dictionaries of text replaced by the text itself."""
    for at, field in enumerate(rows.schema):
        kind = field.type
        if isinstance(kind, pa.DictionaryType) and pa.types.is_string(kind.value_type):
            decoded = _decode(rows.column(at))
            rows = rows.set_column(at, field.with_type(kind.value_type), decoded)
    return rows


def _decode(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    chunks: list[Any] = column.chunks
    pieces = [
        chunk.slice(start, rows).cast(chunk.dictionary.type)
        for chunk in chunks
        for rows in [_rows_of_one_array(chunk.dictionary)]
        for start in range(0, len(chunk), rows)
    ]
    return pa.chunked_array(pieces, column.type.value_type)


def _rows_of_one_array(texts: Any) -> int:
    longest: Any = pc.max(pc.binary_length(texts))
    return max(1, _ARRAY_BYTES // max(1, longest.as_py() or 0))
