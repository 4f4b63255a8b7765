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
    return conformed(rows, schema, wanted, META_COLUMNS)


def conformed(
    rows: pa.Table,
    schema: TableSchema,
    wanted: Collection[str] | None,
    meta_columns: Collection[str] | None = None,
) -> pa.Table:
    """As `with_meta`, of the meta columns those that are wanted, or these."""
    if meta_columns is None:
        meta_columns = [name for name in META_COLUMNS if wanted is None or name in wanted]
    names = {name for name in schema.field_names if wanted is None or name in wanted}
    present = rows.column_names
    own = [name for name in present if name in names and name not in META_COLUMNS]
    rest = conform(rows.select(own), schema, columns=names, are_stored=True)
    fields = [pa.field(name, pa.string()) for name in meta_columns]
    meta = [
        rows.column(name).cast(pa.string())
        if name in present
        else pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
        for name in meta_columns
    ]
    return pa.table([*meta, *rest.columns], schema=pa.schema([*fields, *rest.schema]))
