"""Add columns for new fields of records."""

from __future__ import annotations

from workers.concurrency.outcome import (
    Committed,
)
from workers.errors import (
    LakehouseError,
)
from workers.options.write_options import WriteOptions
from workers.schema.alter import AddColumn, SchemaChange, WidenColumn
from workers.schema.table_schema import TableSchema
from workers.sink.decoding.new_fields import merge_fields
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.write.alter import alter_schema


def add_fields(table: Table, options: WriteOptions, new_fields: str) -> None:
    """Add the fields of the Avro record `new_fields` (JSON) as nullable columns, and missing fields
    to structs. Fields that the table has by now are skipped.

    Raises InvalidInput for fields that the table cannot have, LakehouseError if another attempt
    may succeed.
    """
    schema = load_schema(table)
    types_by_name = {column.name: column.type for column in schema.arrow} if schema else {}
    changes: list[SchemaChange] = []
    for new_field in TableSchema.from_avro_json(new_fields).arrow:
        if (before := types_by_name.get(new_field.name)) is None:
            changes.append(AddColumn(new_field.name, new_field.type))
        elif (wider := merge_fields(before, new_field.type)) != before:
            changes.append(WidenColumn(new_field.name, wider))
    if not changes:
        return
    outcome = alter_schema(table, options, changes)
    if not isinstance(outcome, Committed):
        raise LakehouseError("columns were not added", outcome=type(outcome).__name__)
