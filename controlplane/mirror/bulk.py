"""Many rows at once. New instants go by COPY where the database is PostgreSQL, else by batches.

COPY is spared what Django does per field and row; of few rows it is no cheaper.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from django.db import connection, models
from pyarrow import csv

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table

BATCH_ROWS: Final = 500
COPY_LEAST: Final = 10
_SINGLE_MAX: Final = 8
_CHUNK_BYTES: Final = 1 << 20
_COLUMNS: Final = tuple(
    field for field in InstantRecord._meta.concrete_fields if not field.primary_key
)


def insert_instants(records: Sequence[InstantRecord]) -> None:
    """Rows that are not there yet. Their keys are not read back. Within a transaction."""
    if len(records) < COPY_LEAST or connection.vendor != "postgresql":
        InstantRecord.objects.bulk_create(records, batch_size=BATCH_ROWS)
        return
    with connection.cursor() as cursor, cursor.copy(_statement("")) as copy:
        for record in records:
            copy.write_row(_stored(record))


def insert_names(table: Table, names: pa.Table) -> None:
    """Archived instants of which no more is known, as `archive_names.NAMES` has them. Within a
    transaction.
    """
    if not names.num_rows:
        return
    if connection.vendor != "postgresql":
        InstantRecord.objects.bulk_create(_records(table, names), batch_size=BATCH_ROWS)
        return
    with connection.cursor() as cursor, cursor.copy(_statement(" (FORMAT csv)")) as copy:
        text = memoryview(names_csv(table, names))
        for start in range(0, len(text), _CHUNK_BYTES):
            copy.write(bytes(text[start : start + _CHUNK_BYTES]))


def update_rows(records: Sequence[models.Model], columns: Sequence[str]) -> None:
    """These columns of rows that are there. One by one costs less than a statement of many cases
    does while there are few.
    """
    if len(records) <= _SINGLE_MAX:
        for record in records:
            record.save(update_fields=columns)
        return
    manager = type(records[0])._default_manager
    manager.bulk_update(records, columns, batch_size=BATCH_ROWS)


def _statement(form: str) -> str:
    names = ", ".join(f'"{field.column}"' for field in _COLUMNS)
    return f'COPY "{InstantRecord._meta.db_table}" ({names}) FROM STDIN{form}'


def _stored(record: InstantRecord) -> list[Any]:
    return [_text(field, getattr(record, field.attname)) for field in _COLUMNS]


def _text(field: models.Field[Any, Any], stored: Any) -> Any:
    is_json = isinstance(field, models.JSONField) and stored is not None
    return json.dumps(stored) if is_json else stored


def _records(table: Table, names: pa.Table) -> Iterator[InstantRecord]:
    for requested_at, action, completed_at in zip(*names.to_pydict().values(), strict=True):
        yield InstantRecord(
            table=table,
            requested_at=requested_at,
            action=action,
            **_constants(),
            completed_at=completed_at or requested_at,
        )


def _constants() -> dict[str, Any]:
    return {"state": "completed", "is_archived": True, "has_content": False, "metadata": {}}


def names_csv(table: Table, names: pa.Table) -> pa.Buffer:
    """Rows for COPY, in the order of the model's columns. In one chunk: where the first is empty,
    as of names that no filter went over, Arrow writes garbage.
    """
    names = names.combine_chunks()
    sample = InstantRecord(table=table, **_constants())
    by_name: dict[str, Any] = {name: names.column(name) for name in ("requested_at", "action")}
    by_name["completed_at"] = _completed(names)
    first = pa.array(np.zeros(names.num_rows, dtype=np.int32))
    columns: dict[str, Any] = {}
    for field, stored in zip(_COLUMNS, _stored(sample), strict=True):
        constant: Any = pa.array([stored], None if stored is not None else pa.string())
        columns[field.attname] = by_name.get(field.name, constant.take(first))
    sink = pa.BufferOutputStream()
    csv.write_csv(pa.table(columns), sink, csv.WriteOptions(include_header=False))
    return sink.getvalue()


def _completed(names: pa.Table) -> Any:
    """Foreign archives may lack it; request order is all there is then."""
    completed: Any = names.column("completed_at")
    is_there = pc.fill_null(pc.not_equal(completed, pa.scalar("")), False)
    return pc.if_else(is_there, completed, names.column("requested_at"))
