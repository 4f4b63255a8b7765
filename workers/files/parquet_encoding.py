"""Which columns get a dictionary in Parquet.

A dictionary hashes every value; where nearly all differ, as in keys, that costs a third of the
writing time and makes the file larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

_SAMPLED_ROWS = 4_096


def repeating_columns(rows: pa.Table) -> list[str]:
    """Parquet's paths of the columns whose values repeat, judged by rows from everywhere.

    Columns inside others are taken to repeat.
    """
    if rows.num_rows > _SAMPLED_ROWS:
        places = np.linspace(0, rows.num_rows - 1, _SAMPLED_ROWS).astype(np.int64)
        rows = rows.take(places)
    return [
        path
        for field, column in zip(rows.schema, rows.columns, strict=True)
        if pa.types.is_nested(field.type) or _repeats(column)
        for path in _leaves(field.name, field.type)
    ]


def _repeats(column: pa.ChunkedArray[Any]) -> bool:
    return 2 * len(column.unique()) <= len(column)


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
