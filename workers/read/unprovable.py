"""Which rows an expression of `pyarrow.compute` can still be true of, by what is known of their
columns: Arrow simplifies the expression under these guarantees, as it does for its own datasets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs

from workers.read.statistics import ColumnBounds

_FORMAT = ds.ParquetFileFormat()


def may_be_true(
    expression: Any, schema: pa.Schema, known: Sequence[Mapping[str, ColumnBounds]]
) -> list[int]:
    """Positions in `known` of the rows for which `expression` is not ruled out."""
    # No file has these names, and none is opened: only their guarantees are looked at.
    fragments = [
        _FORMAT.make_fragment(str(at), fs.LocalFileSystem(), _guarantee(bounds, schema))
        for at, bounds in enumerate(known)
    ]
    dataset = ds.FileSystemDataset(fragments, schema, _FORMAT, fs.LocalFileSystem())
    return sorted(int(one.path) for one in dataset.get_fragments(filter=expression))


def _guarantee(bounds: Mapping[str, ColumnBounds], schema: pa.Schema) -> Any:
    whole: Any = pc.scalar(True)
    for name, known in bounds.items():
        part = _of_column(name, known, schema.field(name).type)
        whole = whole if part is None else whole & part
    return whole


def _of_column(name: str, bounds: ColumnBounds, kind: Any) -> Any:
    column: Any = pc.field(name)
    if not bounds.has_values:
        return column.is_null()
    # NaN is in no bounds, and an expression may be true of it.
    if bounds.lowest is None or bounds.highest is None or pa.types.is_floating(kind):
        return None
    try:
        lowest, highest = pa.scalar(bounds.lowest, kind), pa.scalar(bounds.highest, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    if bounds.has_nulls:  # Said of each bound: Arrow understands no other spelling.
        return ((column >= lowest) | column.is_null()) & ((column <= highest) | column.is_null())
    return (column >= lowest) & (column <= highest)
