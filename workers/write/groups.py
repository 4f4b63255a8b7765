"""Prepared rows by the file group that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workers.files.meta_columns import PARTITION_PATH
from workers.write.prepare import BUCKET


@dataclass(frozen=True, slots=True)
class RowGroup:
    partition: str
    bucket: int
    rows: pa.Table
    """As `prepare` made them, without partition path and bucket, in the order of arrival."""
    first_row: int
    """How many rows of the task stand in groups before this: keeps sequence numbers apart."""
    keys_differ: bool = False
    """No key stands here twice, so that nobody has to look."""


def row_groups(prepared: pa.Table) -> Iterator[RowGroup]:
    if prepared.num_rows == 0:
        return
    paths = prepared.column(PARTITION_PATH).combine_chunks().dictionary_encode()
    buckets = prepared.column(BUCKET).to_numpy().astype(np.int64)
    codes = paths.indices.to_numpy().astype(np.int64) * (buckets.max() + 1) + buckets
    order = np.argsort(_small(codes), kind="stable")
    starts = np.concatenate(([0], np.flatnonzero(np.diff(codes[order])) + 1, [len(order)]))
    # Rows of many chunks are taken at half the speed.
    whole = prepared.drop_columns([PARTITION_PATH, BUCKET]).combine_chunks()
    for start, end in pairwise(starts):
        first = int(order[start])
        partition = paths[first].as_py()
        rows = whole if len(starts) == 2 else whole.take(order[start:end])
        yield RowGroup(partition, int(buckets[first]), rows, int(start))


def _small(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | npt.NDArray[np.int16]:
    """Numpy sorts two-byte numbers by counting them."""
    return codes.astype(np.int16) if codes.max() <= np.iinfo(np.int16).max else codes
