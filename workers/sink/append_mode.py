"""Append mode: each record is a row whose key is the record's coordinates.

All rows of a participant have the same topic and partition. So they share one bucket, their keys
differ only in the offset, and no two keys are equal.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.sink.batch import Source
from workers.sink.pending_rows import (
    ArrivedRows,
    PendingRows,
    PreparedRows,
    add_coordinates,
    validate_rows,
)
from workers.sink.tables import OFFSET, append_bucket, append_key_prefix
from workers.sink.unmatched_tombstones import NO_TOMBSTONES, TombstoneCounts
from workers.write.context import WriteContext
from workers.write.groups import row_groups
from workers.write.prepare import Located, prepare


class AppendPreparer:
    """Preparer in append mode: every record is a row, a tombstone a row without a value."""

    def __init__(self, context: WriteContext, source: Source) -> None:
        self._context, self._source = context, source
        self._prefix = append_key_prefix(source, context.config.record_key)
        self._bucket = append_bucket(source.topic, source.partition, context.config.buckets)

    def prepare_rows(self, pending: PendingRows) -> PreparedRows:
        """Return the rows by file group in the order of offsets, tombstones included. No key occurs
        twice.

        Raises BadRows, InvalidInput without dead letters.
        """
        arrived = _add_tombstones(pending)
        rows = add_coordinates(self._context, arrived, self._source)
        sifted = validate_rows(
            self._context, replace(arrived, rows=rows), partial(prepare, located=self._locate)
        )
        groups = (replace(group, keys_differ=True) for group in row_groups(sifted.prepared))
        return PreparedRows(groups, sifted.bad)

    def count_tombstones(self) -> TombstoneCounts:
        """Return no counts, because tombstones are rows in this mode."""
        return NO_TOMBSTONES

    def _locate(self, rows: pa.Table) -> Located:
        offsets: Any = rows.column(OFFSET).combine_chunks().cast(pa.string())
        keys: Any = pc.binary_join_element_wise(self._prefix, offsets, "")
        return keys, np.full(rows.num_rows, self._bucket, np.int32)


def _add_tombstones(pending: PendingRows) -> ArrivedRows:
    arrived, tombstones = pending.arrived, pending.tombstones
    if not tombstones:
        return arrived
    empty = pa.table(
        {field.name: pa.nulls(len(tombstones), field.type) for field in arrived.rows.schema}
    )
    moments = [
        -1 if tombstone.timestamp_ms is None else tombstone.timestamp_ms for tombstone in tombstones
    ]
    offsets = np.concatenate(
        [arrived.offsets, np.array([tombstone.offset for tombstone in tombstones])]
    )
    joined = ArrivedRows(
        pa.concat_tables([arrived.rows, empty.cast(arrived.rows.schema)]),
        offsets,
        np.concatenate([arrived.timestamps_ms, np.array(moments, np.int64)]),
    )
    return joined.take(np.argsort(offsets, kind="stable"))
