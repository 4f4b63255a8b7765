"""A batch made ready for placement: conformed to the writer schema, with record key, partition path
and bucket.

Whatever breaks the table's rules is refused here, before a file is written, with the rows or
columns named.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.files.names import partition_path
from workers.index.bucket import bucket_of_keys
from workers.schema.reconcile import conform
from workers.write.context import WriteContext

BUCKET = "_sluice_bucket"
_ROWS_NAMED_MAX = 5


def prepare(context: WriteContext, batch: pa.Table | pa.RecordBatch) -> pa.Table:
    """The context's columns plus record key, partition path and bucket number. Raises
    InvalidInput.
    """
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    if context.operation == "delete":
        table = table.select(list(context.columns))
    rows = conform(table, context.schema, columns=list(context.columns))
    _check_ordering(context, rows)
    keys = _record_keys(context, rows)
    buckets = bucket_of_keys(keys, buckets=context.config.buckets)
    paths = _partition_paths(context, rows)
    return (
        rows.append_column(pa.field(RECORD_KEY, pa.string()), keys)
        .append_column(pa.field(PARTITION_PATH, pa.string()), paths)
        .append_column(pa.field(BUCKET, pa.int32()), pa.array(buckets, pa.int32()))
    )


def prepared_schema(context: WriteContext) -> pa.Schema:
    """What `prepare` answers with."""
    arrow = context.schema.arrow
    return pa.schema(
        [
            *(arrow.field(name) for name in context.columns),
            pa.field(RECORD_KEY, pa.string()),
            pa.field(PARTITION_PATH, pa.string()),
            pa.field(BUCKET, pa.int32()),
        ]
    )


def _record_keys(context: WriteContext, rows: pa.Table) -> pa.Array[Any]:
    [field] = context.config.record_key
    column = _combined(rows.column(field))
    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        raise InvalidInput("a record key is text or a whole number", column=field, type=column.type)
    _refuse_rows(pc.is_null(column), "record key is null", field)
    keys = column.cast(pa.string())
    _refuse_rows(pc.equal(keys, pa.scalar("")), "record key is empty", field)
    return keys


def _check_ordering(context: WriteContext, rows: pa.Table) -> None:
    field = context.config.ordering_field
    if field is None or field not in context.columns:
        return
    if pa.types.is_floating(rows.schema.field(field).type):
        _refuse_rows(pc.is_nan(_combined(rows.column(field))), "ordering value is NaN", field)


def _partition_paths(context: WriteContext, rows: pa.Table) -> pa.Array[Any]:
    config = context.config
    if not config.partition_by:
        return pa.repeat(pa.scalar("", pa.string()), rows.num_rows)
    [field] = config.partition_by
    encoded = _combined(rows.column(field)).dictionary_encode(null_encoding="encode")
    paths = [_path(context, field, value) for value in encoded.dictionary.to_pylist()]
    return pa.array(paths, pa.string()).take(encoded.indices)


def _path(context: WriteContext, field: str, value: Any) -> str:
    config = context.config
    return partition_path(
        [field], [value], hive_style=config.hive_style, url_encode=config.url_encode
    )


def _refuse_rows(is_bad: Any, message: str, column: str) -> None:
    rows = pc.indices_nonzero(pc.fill_null(is_bad, False))
    if len(rows):
        named = rows.slice(0, _ROWS_NAMED_MAX).to_pylist()
        raise InvalidInput(message, column=column, rows=len(rows), first_rows=named)


def _combined(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    combined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    assert isinstance(combined, pa.Array), "more text than one Arrow array holds"
    return combined
