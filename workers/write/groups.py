"""Prepared rows by the file group that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workers.files.meta_columns import PARTITION_PATH
from workers.write.prepare import SLOT


@dataclass(frozen=True, slots=True)
class RowGroup:
    partition: str
    slot: int
    """Of the file group in its partition: its bucket, or as `WriteContext.slices` counts."""
    rows: pa.Table
    """As `prepare` made them, without partition path and slot, in the order of arrival."""
    first_row: int
    """How many rows of the task stand in groups before this: keeps sequence numbers apart."""
    keys_differ: bool = False
    """No key stands here twice, so that nobody has to look."""


def row_groups(prepared: pa.Table) -> Iterator[RowGroup]:
    if prepared.num_rows == 0:
        return
    paths = prepared.column(PARTITION_PATH).combine_chunks().dictionary_encode()
    slots = prepared.column(SLOT).to_numpy().astype(np.int64)
    codes = paths.indices.to_numpy().astype(np.int64) * (slots.max() + 1) + slots
    order = np.argsort(_small(codes), kind="stable")
    starts = np.concatenate(([0], np.flatnonzero(np.diff(codes[order])) + 1, [len(order)]))
    # Rows of many chunks are taken at half the speed.
    whole = prepared.drop_columns([PARTITION_PATH, SLOT]).combine_chunks()
    for start, end in pairwise(starts):
        first = int(order[start])
        partition = paths[first].as_py()
        rows = whole if len(starts) == 2 else whole.take(order[start:end])
        yield RowGroup(partition, int(slots[first]), rows, int(start))


def rows_at(prepared: pa.Table, partition: str, slot: int) -> RowGroup:
    """All of `prepared` as rows of the file group that they were found in."""
    return RowGroup(partition, slot, prepared.drop_columns([PARTITION_PATH, SLOT]), first_row=0)


def _small(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | npt.NDArray[np.int16]:
    """Numpy sorts two-byte numbers by counting them."""
    return codes.astype(np.int16) if codes.max() <= np.iinfo(np.int16).max else codes
