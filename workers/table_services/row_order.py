"""The order of rows inside a clustered file: by columns, or along a z-curve over several of them.

The z-curve interleaves the bits of each column's rank, so that rows that are near in all columns
are near each other in the file, whatever the columns' types and scales. Nulls come first in both
orders.

Rows are brought into a known order without holding all of them. They pass by once and go to the
range of places that theirs is in; then range after range is read back, put in order and handed on.
The ranges are temporary files without names: a killed process leaves nothing behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.arrow_streams import arrow_stream

Layout = Literal["linear", "z-order"]
LAYOUTS: tuple[Layout, ...] = ("linear", "z-order")
_BITS_MAX = 63
_BITS_PER_COLUMN_MAX = 21
Positions = np.ndarray[tuple[int], np.dtype[np.int64]]
_Codes = np.ndarray[tuple[int], np.dtype[np.uint64]]
_RANGES_MAX = 256
_Places = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Columns to sort by, the most important first, and how; without columns rows stay as
    they are.
    """

    columns: tuple[str, ...]
    layout: Layout = "linear"


def check_order(order: RowOrder, schema: pa.Schema) -> None:
    """Check that rows of this schema can be sorted so. Raises InvalidInput for a column that is not
    there, or whose values have no order.
    """
    if len(order.columns) > _BITS_MAX:
        raise InvalidInput("too many columns to sort by", most=_BITS_MAX)
    for name in order.columns:
        if name not in schema.names:
            raise InvalidInput("sort column is not in the table", column=name)
        if pa.types.is_nested(schema.field(name).type):
            raise InvalidInput("sort column is nested", column=name, type=schema.field(name).type)


def sort_rows(rows: pa.Table, order: RowOrder) -> pa.Table:
    """Return `rows` sorted; equal rows keep their order."""
    if rows.num_rows < 2 or not order.columns:
        return rows
    return rows.take(sort_positions(rows, order))


def sort_positions(rows: pa.Table, order: RowOrder) -> Positions:
    """Return the positions of the rows in sorted order. Only the columns of `order` are read."""
    ranks = [_ranks(rows.column(name)) for name in order.columns]
    if not ranks:
        return np.arange(rows.num_rows)
    if order.layout == "linear" or len(ranks) == 1:
        return np.lexsort(ranks[::-1])
    return np.argsort(compute_z_values(ranks), kind="stable")


def compute_z_values(ranks: list[_Codes]) -> _Codes:
    """Return the position of each row on the z-curve; the first column has the greatest weight of
    each level of bits.
    """
    bits = min(_BITS_PER_COLUMN_MAX, _BITS_MAX // len(ranks))
    scaled = [_scale(rank, bits) for rank in ranks]
    positions = np.zeros(len(ranks[0]), dtype=np.uint64)
    one_bit = np.uint64(1)
    for level in reversed(range(bits)):
        for column in scaled:
            positions = (positions << one_bit) | ((column >> np.uint64(level)) & one_bit)
    return positions


def _ranks(column: pa.ChunkedArray[Any]) -> _Codes:
    """0 for the smallest; equal values share a rank, null is below everything."""
    ranked = pc.rank(
        column.combine_chunks(),
        sort_keys=[("", "ascending", "at_start")],  # type: ignore[arg-type]  # stubs lag
        tiebreaker="dense",
    )
    return np.asarray(ranked.to_numpy(zero_copy_only=False), dtype=np.uint64) - np.uint64(1)


def _scale(ranks: _Codes, bits: int) -> _Codes:
    """Scale ranks to `bits` bits, so that columns of few values weigh as much as those of many."""
    greatest = int(ranks.max())
    if greatest == 0:
        return ranks
    spread = ranks.astype(np.float64) * ((1 << bits) - 1) / greatest
    return spread.astype(np.uint64)


def sort_into_places(
    batches: Iterable[pa.RecordBatch], places: _Places, *, range_bytes: int
) -> Iterator[pa.Table]:
    """Yield the rows of `batches`, whose n-th row belongs at `places[n]`, in order, in pieces.

    About `range_bytes` of them are held at once, some two or three times.
    """
    passing = (batch for batch in batches if batch.num_rows)
    first = next(passing, None)
    if first is None:
        return
    row_bytes = max(1.0, first.nbytes / first.num_rows)
    rows = max(1, int(range_bytes / row_bytes), -(-len(places) // _RANGES_MAX))
    with ExitStack() as files:
        ranges = [_Range(first.schema, files) for _ in range(0, len(places), rows)]
        start = 0
        for batch in chain([first], passing):
            here = places[start : start + batch.num_rows]
            start += batch.num_rows
            _distribute(batch, here, ranges, rows)
        assert start == len(places), (start, len(places))
        for part in ranges:
            yield part.in_order()


def _distribute(batch: pa.RecordBatch, here: _Places, ranges: list[_Range], rows: int) -> None:
    numbers = here // rows
    by_range = np.argsort(numbers, kind="stable")
    range_numbers, starts = np.unique(numbers[by_range], return_index=True)
    ends = np.append(starts[1:], len(by_range))
    for number, begin, end in zip(range_numbers, starts, ends, strict=True):
        positions = by_range[begin:end]
        ranges[number].add(batch.take(positions), here[positions])


@dataclass(slots=True)
class _Range:
    schema: pa.Schema
    files: ExitStack
    _file: Any = None
    _writer: pa.RecordBatchStreamWriter | None = None
    _places: list[_Places] = field(default_factory=list)

    def add(self, rows: pa.RecordBatch, places: _Places) -> None:
        if self._writer is None:
            file = tempfile.TemporaryFile(prefix="sluice-sort-")  # noqa: SIM115 # `files` closes it.
            self._file = self.files.enter_context(file)
            self._writer = pa.ipc.new_stream(self._file, self.schema)
        self._writer.write_batch(rows)
        self._places.append(places)

    def in_order(self) -> pa.Table:
        """Read back once; its file goes then."""
        assert self._writer is not None, "every range has a row"
        assert self._file is not None, "it was opened with its writer"
        self._writer.close()
        self._file.seek(0)
        rows = arrow_stream(self._file).read_all()
        self._file.close()
        return rows.take(np.argsort(np.concatenate(self._places), kind="stable"))
