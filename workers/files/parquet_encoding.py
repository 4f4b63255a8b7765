"""Which columns get a dictionary in Parquet, and columns that have theirs already.

A dictionary hashes every value; where nearly all differ, as in keys, that costs a third of the
writing time and makes the file larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SAMPLED_ROWS = 4_096
_FEW_ROWS = 512


def spelled_once(text: pa.Scalar[Any], rows: int) -> pa.Array[Any]:
    """So many rows of one text, as a dictionary of it: Parquet hashes and compares no row then, and
    writes the same bytes.
    """
    numbers = pa.repeat(pa.scalar(0, pa.int32()), rows)
    return pa.DictionaryArray.from_arrays(numbers, pa.array([text.as_py()], text.type))


class SpelledOnce:
    """Text columns of a file that say the same in all rows, made into dictionaries row group by row
    group. Which ones the first row group tells; what differs in a later one is in its dictionary.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are looked at, the others left as they are."""
        self._looked_at = names
        self._names: list[str] | None = None

    def encoded(self, group: pa.Table) -> pa.Table:
        """The rows with these columns as dictionaries."""
        if self._names is None:
            self._names = [name for name in self._looked_at if _is_repeated(group.column(name))]
        for name in self._names:
            column = group.column(name)
            if _is_repeated(column):
                encoded: Any = spelled_once(column[0], len(column))
            else:
                encoded = column.dictionary_encode()
            at = group.column_names.index(name)
            group = group.set_column(at, pa.field(name, encoded.type), encoded)
        return group


def _is_repeated(column: pa.ChunkedArray[Any]) -> bool:
    if not len(column) or not pa.types.is_string(column.type):
        return False
    is_same: Any = pc.all(pc.equal(column, column[0]), skip_nulls=False)
    return is_same.as_py() is True


def repeating_columns(rows: pa.Table) -> list[str]:
    """Parquet's paths of the columns whose values repeat, judged by rows from everywhere.

    Columns inside others are taken to repeat.
    """
    few = _from_everywhere(rows, _FEW_ROWS)
    return [
        path
        for field, some, column in zip(rows.schema, few.columns, rows.columns, strict=True)
        if pa.types.is_nested(field.type) or _repeats(some, column)
        for path in _leaves(field.name, field.type)
    ]


def _repeats(few: pa.ChunkedArray[Any], column: pa.ChunkedArray[Any]) -> bool:
    """Most columns are told by a few of their rows: of a quarter as many values as rows more rows
    hold hardly more, and where all differ nearly all do.
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
    """The paths of Parquet's own columns below a field."""
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
