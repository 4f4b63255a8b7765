"""Rows of a file under the schema that a reader has."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from workers.files.meta_columns import META_COLUMNS
from workers.schema.reconcile import conform
from workers.schema.table_schema import TableSchema


def with_meta(
    rows: pa.Table, schema: TableSchema, wanted: Collection[str] | None = None
) -> pa.Table:
    """All meta columns first, then the wanted ones of the schema; what `rows` lacks is null."""
    names = [name for name in schema.field_names if wanted is None or name in wanted]
    present = [name for name in rows.column_names if name in names and name not in META_COLUMNS]
    conformed = conform(rows.select(present), schema, columns=names, are_stored=True)
    fields = [pa.field(name, pa.string()) for name in META_COLUMNS]
    meta = [
        rows.column(name).cast(pa.string())
        if name in rows.column_names
        else pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
        for name in META_COLUMNS
    ]
    return pa.table([*meta, *conformed.columns], schema=pa.schema([*fields, *conformed.schema]))
