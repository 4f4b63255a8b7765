"""Upsert mode: a record is a new version of the row with its key, or deletes that row.

A tombstone names its row by the record's key and deletes it regardless of ordering values. A row
whose op column contains a delete is a delete with the row's ordering value, if the table has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.merge.versions import DELETE_NOW, DELETED
from workers.merge.versions import ROW as ROW_KIND
from workers.options.sink_keys import OnBadRecord
from workers.read.log_versions import IS_DELETED
from workers.sink.batch import BadRecord, Offsets, Source, Tombstone
from workers.sink.config import SinkConfig
from workers.sink.pending_rows import (
    ArrivedRows,
    PendingRows,
    PreparedRows,
    ValidatedRows,
    add_coordinates,
    validate_rows,
)
from workers.sink.tombstone_keys import TombstoneKeys
from workers.sink.unmatched_tombstones import (
    DELETE,
    ROW,
    TOMBSTONE,
    TombstoneCounter,
    TombstoneCounts,
)
from workers.storage.base import Storage
from workers.write.context import WriteContext
from workers.write.groups import row_groups
from workers.write.prepare import prepare

_SHARE_REMEMBERED = 8
"""Share of the buffer for keys of the transaction, which later tombstones are compared with."""
_DELETES = pa.array(["d", "delete"])


class UpsertPreparer:
    """Preparer in upsert mode, for one participant in one transaction. Not thread-safe. Its
    tombstone counts cover all calls.
    """

    def __init__(
        self, context: WriteContext, config: SinkConfig, source: Source, storage: Storage
    ) -> None:
        bytes_max = config.buffer_bytes_max // _SHARE_REMEMBERED
        self._lookout = TombstoneCounter(context, storage, bytes_max)
        self._context = replace(context, marks_deletes=False)
        self._config, self._source = config, source
        self._ordering = context.config.ordering_field
        located = {*context.config.record_key, *context.config.partition_by}
        ordered = located | ({self._ordering} if self._ordering else set())
        names = context.schema.field_names
        self._tombstones = replace(
            self._context, columns=tuple(name for name in names if name in located)
        )
        located_by = pa.schema([context.schema.arrow.field(n) for n in self._tombstones.columns])
        self._keys = TombstoneKeys(config, located_by)
        self._deletes = replace(
            context,
            columns=tuple(name for name in names if name in ordered),
            marks_deletes=True,
        )

    def prepare_rows(self, pending: PendingRows) -> PreparedRows:
        """Return rows and deletes by file group, in the order of offsets. A key may occur several
        times.

        Raises BadRows, InvalidInput without dead letters.
        """
        arrived = pending.arrived
        rows = add_coordinates(self._context, arrived, self._source)
        arrived = replace(arrived, rows=rows)
        upserts, deletes = self._split_deletes(arrived)
        parts = [
            validate_rows(self._context, upserts, prepare),
            self._prepare_deletes(deletes),
            self._prepare_tombstones(pending.tombstones),
        ]
        bad = tuple(record for part in parts for record in part.bad)
        for part, kind in zip(parts, (ROW, DELETE, TOMBSTONE), strict=True):
            self._lookout.add(part.prepared, part.offsets, kind)
        return PreparedRows(row_groups(self._join_parts(parts)), bad)

    def count_tombstones(self) -> TombstoneCounts:
        """Return the counts of the tombstones of all calls of `prepare_rows`. It reads the keys of
        file groups, so it is called once, at the end.
        """
        return self._lookout.count()

    def _split_deletes(self, arrived: ArrivedRows) -> tuple[ArrivedRows, ArrivedRows]:
        """Split the rows into upserts and deletes, by the op column."""
        op = self._config.op_column
        if not op or op not in arrived.rows.column_names:
            return arrived, arrived.take(np.zeros(0, np.int64))
        operations: Any = pc.utf8_lower(arrived.rows.column(op).cast(pa.string()))
        is_delete = pc.fill_null(pc.is_in(operations, value_set=_DELETES), False).to_numpy()
        if op not in self._context.schema.field_names:
            arrived = replace(arrived, rows=arrived.rows.drop_columns([op]))
        if not is_delete.any():
            return arrived, arrived.take(np.zeros(0, np.int64))
        return arrived.take(np.flatnonzero(~is_delete)), arrived.take(np.flatnonzero(is_delete))

    def _prepare_deletes(self, arrived: ArrivedRows) -> ValidatedRows:
        rows = arrived.rows
        selected = rows.select(
            [name for name in self._deletes.columns if name in rows.column_names]
        )
        marks: Any = pa.repeat(pa.scalar(True), rows.num_rows)
        return validate_rows(
            self._deletes, replace(arrived, rows=selected.append_column(IS_DELETED, marks)), prepare
        )

    def _prepare_tombstones(self, tombstones: Sequence[Tombstone]) -> ValidatedRows:
        read_keys = self._keys.read([tombstone.key for tombstone in tombstones])
        bad = [_to_bad_record(tombstones[at], why) for at, why in sorted(read_keys.bad.items())]
        if bad and self._config.on_bad_record is OnBadRecord.FAIL:
            return ValidatedRows(pa.table({}), np.zeros(0, np.int64), tuple(bad))
        good = [tombstones[at] for at in read_keys.positions.tolist()]
        arrived = ArrivedRows(
            read_keys.columns,
            np.array([tombstone.offset for tombstone in good], np.int64),
            np.array(
                [-1 if (at := tombstone.timestamp_ms) is None else at for tombstone in good],
                np.int64,
            ),
        )
        sifted = validate_rows(self._tombstones, arrived, prepare)
        kinds: Any = pa.repeat(pa.scalar(DELETE_NOW, pa.int8()), sifted.prepared.num_rows)
        marked = sifted.prepared.append_column(DELETED, kinds)
        return replace(sifted, prepared=marked, bad=(*bad, *sifted.bad))

    def _join_parts(self, parts: Sequence[ValidatedRows]) -> pa.Table:
        """Return the rows of all parts by offset. Columns that deletes lack are null."""
        rows, *deletes = parts
        if not any(part.prepared.num_rows for part in deletes):
            return rows.prepared
        filled = [rows, *(part for part in deletes if part.prepared.num_rows)]
        offsets: Offsets = np.concatenate([part.offsets for part in filled])
        loose = [_make_nullable(part.prepared) for part in filled]
        joined = pa.concat_tables(loose, promote_options="default")
        joined = joined.take(np.argsort(offsets, kind="stable"))
        kinds: Any = pc.fill_null(joined.column(DELETED), pa.scalar(ROW_KIND, pa.int8()))
        joined = joined.set_column(joined.column_names.index(DELETED), DELETED, kinds)
        if IS_DELETED not in self._context.columns:
            return joined
        at = joined.column_names.index(IS_DELETED)
        is_deleted: Any = pc.or_kleene(
            joined.column(IS_DELETED), pc.not_equal(kinds, pa.scalar(ROW_KIND, pa.int8()))
        )
        return joined.set_column(at, joined.schema.field(IS_DELETED), is_deleted)


def _make_nullable(table: pa.Table) -> pa.Table:
    """Make all columns nullable, because a delete has no value for required columns."""
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))


def _to_bad_record(tombstone: Tombstone, cause: str) -> BadRecord:
    return BadRecord(
        tombstone.offset,
        tombstone.key,
        None,
        cause,
        tombstone.timestamp_ms,
        tombstone.headers,
    )
