"""Prepared rows by the file group that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workers.files.meta_columns import PARTITION_PATH
from workers.threads import beside_each_other, threads_for
from workers.write.prepare import SLOT

Codes = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of a batch that belong to one file group."""

    partition: str
    slot: int
    """The slot of the file group in its partition: its bucket, or as in `WriteContext.slices`."""
    rows: pa.Table
    """As `prepare` made them, without partition path and slot, in the order of arrival."""
    first_row: int
    """How many rows of the task are in groups before this: keeps sequence numbers apart."""
    keys_differ: bool = False
    """No key occurs twice here, so that no merge has to check."""
    keeps_seqno: bool = False
    """Whether `rows` bring sequence numbers: those of the commits that wrote them first."""
    arriving: pa.Table | None = None
    """Stored states of some of the keys of `rows`, which come from other partitions."""
    leaving: pa.Table | None = None
    """Record keys of rows of this file group that go to another partition."""

    @property
    def written_rows(self) -> int:
        """The count of rows that the file gets from this group, with those that arrive."""
        return self.rows.num_rows + (self.arriving.num_rows if self.arriving is not None else 0)


def row_groups(prepared: pa.Table, threads: int | None = 1) -> Iterator[RowGroup]:
    """Yield the prepared rows by partition and slot, each pair once; rows keep their order within
    it. Rows are taken on this many threads, or on as many as pay (`threads_for`).
    """
    if prepared.num_rows == 0:
        return
    paths = prepared.column(PARTITION_PATH).combine_chunks().dictionary_encode()
    slots = prepared.column(SLOT).to_numpy().astype(np.int64)
    codes = paths.indices.to_numpy().astype(np.int64) * (slots.max() + 1) + slots
    for first, start, rows in _runs(prepared.drop_columns([PARTITION_PATH, SLOT]), codes, threads):
        yield RowGroup(paths[first].as_py(), int(slots[first]), rows, start)


def rows_by_share(rows: pa.Table, shares: Codes) -> Iterator[RowGroup]:
    """Yield rows with all of their columns by the numbers that `shares` give them, in no
    partition.
    """
    for first, start, some in _runs(rows, shares):
        yield RowGroup("", int(shares[first]), some, start)


def rows_at(prepared: pa.Table, partition: str, slot: int) -> RowGroup:
    """Return all of `prepared` as rows of the file group that they were found in."""
    return RowGroup(partition, slot, prepared.drop_columns([PARTITION_PATH, SLOT]), first_row=0)


def _runs(
    rows: pa.Table, codes: Codes, wanted_threads: int | None = 1
) -> Iterator[tuple[int, int, pa.Table]]:
    """Yield rows of equal codes: the position of the first, the count of rows in runs before, and
    the rows.
    """
    if not len(codes):
        return
    order = np.argsort(_small(codes), kind="stable")
    starts = np.concatenate(([0], np.flatnonzero(np.diff(codes[order])) + 1, [len(order)]))
    whole = rows.combine_chunks()  # Rows of many chunks are taken at half the speed.
    runs = [order[start:end] for start, end in pairwise(starts)]
    for start, run, some in zip(
        starts, runs, _take_runs(whole, runs, wanted_threads), strict=False
    ):
        yield int(run[0]), int(start), some


def _take_runs(
    whole: pa.Table, runs: list[Codes], wanted_threads: int | None
) -> Iterable[pa.Table]:
    if len(runs) == 1:
        return [whole]
    row_bytes = whole.nbytes / whole.num_rows
    threads = threads_for([int(row_bytes * len(run)) for run in runs], wanted_threads)
    if threads == 1:
        return map(whole.take, runs)
    return beside_each_other(whole.take, runs, threads=threads)


def _small(codes: Codes) -> Codes:
    """Numpy sorts two-byte numbers by counting them."""
    return codes.astype(np.int16) if codes.max() <= np.iinfo(np.int16).max else codes
