"""Append mode: each record is a row under the key of where it came from.

Topic and partition are the same for all rows of a participant, so the bucket is known once, keys
differ in their end only, and no two are equal.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.sink.pending import (
    Arrived,
    PendingRows,
    PreparedRows,
    sift_rows,
    with_coordinates,
)
from workers.sink.source import Source
from workers.sink.tables import OFFSET, append_bucket, append_key_prefix
from workers.sink.unmet_deletes import NO_TOMBSTONES, TombstoneCounts
from workers.write.context import WriteContext
from workers.write.groups import row_groups
from workers.write.prepare import Located, prepare


class AppendedRows:
    """A tombstone is a row without a value, as every record is a row."""

    def __init__(self, context: WriteContext, source: Source) -> None:
        self._context, self._source = context, source
        self._prefix = append_key_prefix(source, context.config.record_key)
        self._bucket = append_bucket(source.topic, source.partition, context.config.buckets)

    def prepared(self, held: PendingRows) -> PreparedRows:
        """The rows by file group, no key twice, tombstones among them in the order of offsets.

        Raises BadRows, InvalidInput where there are no dead letters.
        """
        arrived = _with_tombstones(held)
        rows = with_coordinates(self._context, arrived, self._source)
        sifted = sift_rows(
            self._context, replace(arrived, rows=rows), partial(prepare, located=self._located)
        )
        groups = (replace(one, keys_differ=True) for one in row_groups(sifted.prepared))
        return PreparedRows(groups, sifted.bad)

    def tombstones(self) -> TombstoneCounts:
        """Here they are rows."""
        return NO_TOMBSTONES

    def _located(self, rows: pa.Table) -> Located:
        offsets: Any = rows.column(OFFSET).combine_chunks().cast(pa.string())
        keys: Any = pc.binary_join_element_wise(self._prefix, offsets, "")
        return keys, np.full(rows.num_rows, self._bucket, np.int32)


def _with_tombstones(held: PendingRows) -> Arrived:
    arrived, tombstones = held.arrived, held.tombstones
    if not tombstones:
        return arrived
    empty = pa.table(
        {field.name: pa.nulls(len(tombstones), field.type) for field in arrived.rows.schema}
    )
    moments = [-1 if one.timestamp_ms is None else one.timestamp_ms for one in tombstones]
    offsets = np.concatenate([arrived.offsets, np.array([one.offset for one in tombstones])])
    joined = Arrived(
        pa.concat_tables([arrived.rows, empty.cast(arrived.rows.schema)]),
        offsets,
        np.concatenate([arrived.timestamps_ms, np.array(moments, np.int64)]),
    )
    return joined.take(np.argsort(offsets, kind="stable"))
