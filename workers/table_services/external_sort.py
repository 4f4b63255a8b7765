"""Rows brought into a known order without holding all of them.

Each row's place is known beforehand. Rows pass by once and go to the range of places that theirs is
in; then range after range is read back, put in order and handed on. The ranges are temporary files
without names: a killed process leaves nothing behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from workers.files.arrow_streams import arrow_stream

_RANGES_MAX = 256
_Places = np.ndarray[tuple[int], np.dtype[np.int64]]


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
