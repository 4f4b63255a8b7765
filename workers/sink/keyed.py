"""Keyed mode: a record is a version of the table's row of its key, or takes that row away.

A tombstone names its row by the record's key and deletes it at once, whatever the ordering values;
a row whose op column says so deletes as old as its ordering value is, where the table has one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.merge.versions import DELETE_NOW, DELETED, ROW
from workers.read.log_versions import IS_DELETED
from workers.schema.bad_rows import failing_rows
from workers.sink.batch import BadRecord, Offsets, Tombstone
from workers.sink.config import OnBadRecord, SinkConfig
from workers.sink.pending import (
    Arrived,
    PendingRows,
    PreparedRows,
    SiftedRows,
    sift_rows,
    with_coordinates,
)
from workers.write.context import WriteContext
from workers.write.groups import row_groups
from workers.write.prepare import prepare

_DELETES = pa.array(["d", "delete"])


class KeyedRows:
    def __init__(
        self, context: WriteContext, config: SinkConfig, topic: str, partition: int
    ) -> None:
        self._context = replace(context, marks_deletes=False)
        self._config = config
        self._topic, self._partition = topic, partition
        self._ordering = context.config.ordering_field
        located = {*context.config.record_key, *context.config.partition_by}
        ordered = located | ({self._ordering} if self._ordering else set())
        names = context.schema.field_names
        self._tombstones = replace(
            self._context, columns=tuple(one for one in names if one in located)
        )
        self._deletes = replace(
            context,
            columns=tuple(one for one in names if one in ordered),
            marks_deletes=True,
        )

    def prepared(self, held: PendingRows) -> PreparedRows:
        arrived = held.arrived
        arrived = replace(
            arrived, rows=with_coordinates(self._context, arrived, self._topic, self._partition)
        )
        rows, deletes = self._split(arrived)
        parts = [
            sift_rows(self._context, rows, prepare),
            self._deleted(deletes),
            self._buried(held.tombstones),
        ]
        bad = tuple(one for part in parts for one in part.bad)
        return PreparedRows(row_groups(self._joined(parts)), bad)

    def _split(self, arrived: Arrived) -> tuple[Arrived, Arrived]:
        """Rows that stand, and rows that delete."""
        op = self._config.op_column
        if not op or op not in arrived.rows.column_names:
            return arrived, arrived.take(np.zeros(0, np.int64))
        said: Any = pc.utf8_lower(arrived.rows.column(op).cast(pa.string()))
        is_delete = pc.fill_null(pc.is_in(said, value_set=_DELETES), False).to_numpy()
        if op not in self._context.schema.field_names:
            arrived = replace(arrived, rows=arrived.rows.drop_columns([op]))
        if not is_delete.any():
            return arrived, arrived.take(np.zeros(0, np.int64))
        return arrived.take(np.flatnonzero(~is_delete)), arrived.take(np.flatnonzero(is_delete))

    def _deleted(self, arrived: Arrived) -> SiftedRows:
        rows = arrived.rows
        kept = rows.select([one for one in self._deletes.columns if one in rows.column_names])
        marks: Any = pa.repeat(pa.scalar(True), rows.num_rows)
        return sift_rows(
            self._deletes, replace(arrived, rows=kept.append_column(IS_DELETED, marks)), prepare
        )

    def _buried(self, tombstones: Sequence[Tombstone]) -> SiftedRows:
        fields = self._tombstones.columns
        types = self._context.schema.arrow
        values, good, bad = [], [], []
        for one in tombstones:
            try:
                values.append(_key_fields(one.key, fields))
                good.append(one)
            except InvalidInput as error:
                bad.append(_letter(one, str(error)))
        columns: dict[str, Any] = {}
        wrong: dict[int, str] = {}
        for name in fields:
            texts = pa.array([one[name] for one in values], pa.string())
            columns[name], failed = _cast(texts, types.field(name).type)
            wrong |= dict.fromkeys(failed, f"the tombstone's key has no fit value: column={name}")
        bad += [_letter(good[at], why) for at, why in sorted(wrong.items())]
        if bad and self._config.on_bad_record is OnBadRecord.FAIL:
            return SiftedRows(pa.table({}), np.zeros(0, np.int64), tuple(bad))
        arrived = Arrived(
            pa.table(columns),
            np.array([one.offset for one in good], np.int64),
            np.array([-1 if (at := one.timestamp_ms) is None else at for one in good], np.int64),
        )
        kept = np.delete(np.arange(len(good)), list(wrong))
        found = sift_rows(self._tombstones, arrived.take(kept), prepare)
        kinds: Any = pa.repeat(pa.scalar(DELETE_NOW, pa.int8()), found.prepared.num_rows)
        marked = found.prepared.append_column(DELETED, kinds)
        return replace(found, prepared=marked, bad=(*bad, *found.bad))

    def _joined(self, parts: Sequence[SiftedRows]) -> pa.Table:
        """All of them by offset. Deletes say nothing of the columns that they lack."""
        rows, *deletes = parts
        if not any(part.prepared.num_rows for part in deletes):
            return rows.prepared
        found = [rows, *(part for part in deletes if part.prepared.num_rows)]
        offsets: Offsets = np.concatenate([part.offsets for part in found])
        loose = [_nullable(part.prepared) for part in found]
        joined = pa.concat_tables(loose, promote_options="default")
        joined = joined.take(np.argsort(offsets, kind="stable"))
        kinds: Any = pc.fill_null(joined.column(DELETED), pa.scalar(ROW, pa.int8()))
        joined = joined.set_column(joined.column_names.index(DELETED), DELETED, kinds)
        if IS_DELETED not in self._context.columns:
            return joined
        at = joined.column_names.index(IS_DELETED)
        said: Any = pc.or_kleene(
            joined.column(IS_DELETED), pc.not_equal(kinds, pa.scalar(ROW, pa.int8()))
        )
        return joined.set_column(at, joined.schema.field(IS_DELETED), said)


def _nullable(table: pa.Table) -> pa.Table:
    """A delete has no value for columns that every row has."""
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))


def _key_fields(key: bytes | None, fields: Sequence[str]) -> dict[str, str]:
    """The text of each field. A key is a JSON object, or the plain text of the only field."""
    if key is None:
        raise InvalidInput("the tombstone has no key, so it names no row")
    try:
        text = key.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("the tombstone's key is not text") from error
    if not text.lstrip().startswith("{"):
        if len(fields) > 1:
            raise InvalidInput(
                "the tombstone's key is plain text, and it takes several fields to find its row",
                fields=list(fields),
            )
        return {fields[0]: text}
    try:
        body = json.loads(text)
    except ValueError as error:
        raise InvalidInput("the tombstone's key is not a JSON object") from error
    return {name: _value_text(body, name) for name in fields}


def _value_text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        raise InvalidInput("the tombstone's key lacks a field that finds its row", field=name)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        raise InvalidInput("the tombstone's key holds what no key is made of", field=name)
    return str(value)


def _cast(texts: Any, target: pa.DataType) -> tuple[Any, list[int]]:
    """The values, null where a text is none, and where that is."""
    try:
        return texts.cast(target), []
    except pa.ArrowInvalid:
        pass

    def fails(start: int, rows: int) -> bool:
        try:
            texts.slice(start, rows).cast(target)
        except pa.ArrowInvalid:
            return True
        return False

    failed = failing_rows(len(texts), fails, most=len(texts))
    is_bad = np.zeros(len(texts), np.bool_)
    is_bad[failed] = True
    return pc.if_else(pa.array(is_bad), None, texts).cast(target), failed


def _letter(tombstone: Tombstone, cause: str) -> BadRecord:
    return BadRecord(
        tombstone.offset,
        tombstone.key,
        None,
        cause,
        tombstone.timestamp_ms,
        tombstone.headers,
    )
