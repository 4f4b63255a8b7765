"""A renamed column: every reader projects by name, so the whole table is rewritten under the new
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from workers.concurrency.outcome import CommitOutcome
from workers.errors import EarlyConflict
from workers.files.meta_columns import META_COLUMNS
from workers.options.write_options import WriteOptions
from workers.read.file_slice import read_slice
from workers.schema.alter import (
    SchemaChange,
    apply_changes,
    get_renames,
)
from workers.schema.table_schema import TableSchema
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.write.client import Transaction, WriteClient
from workers.write.groups import rows_at
from workers.write.handles import write_row_groups
from workers.write.prepare import prepare
from workers.write.request import WriteRequest
from workers.write.status import TaskIds, WriteStatus


def apply_table_changes(
    table: Table, schema: TableSchema, changes: Sequence[SchemaChange]
) -> TableSchema:
    """Apply `changes`, which must leave the columns alone that the table's configuration names.

    Raises InvalidInput.
    """
    config = table.config
    return apply_changes(
        schema, changes, pinned=config.pinned_columns, ordering=config.ordering_columns
    )


def rewrite_renamed(
    table: Table, options: WriteOptions, changes: Sequence[SchemaChange]
) -> CommitOutcome:
    """Rewrite every file group, one at a time, under the schema with `changes`: one replacecommit.

    Raises InvalidInput before anything is written, LockTimeout; any later error, with everything
    rolled back.
    """
    schema = load_schema(table)
    assert schema is not None
    request = WriteRequest("insert_overwrite_table", reads_rows=True)
    attempt = WriteClient(table, options).begin(schema.arrow, request)
    try:
        old = attempt.context.schema
        # No file that a reader sees holds dropped columns now.
        new = apply_table_changes(table, old.without_dropped(old.dropped), changes)
        new = new.without_dropped(new.dropped)
        attempt.context = replace(attempt.context, schema=new, columns=new.field_names)
        statuses = list(_rewrite(table, attempt, old, get_renames(changes)))
    except EarlyConflict:
        return attempt.lose_early()
    except Exception as error:
        attempt.fail(error)
        raise
    return attempt.commit(statuses)


def _rewrite(
    table: Table, attempt: Transaction, old: TableSchema, names: dict[str, str]
) -> Iterable[WriteStatus]:
    context = attempt.context
    for number, ((partition, slot), slice_) in enumerate(context.slices.items()):
        rows = read_slice(table.storage, table.config, old, slice_).drop_columns(list(META_COLUMNS))
        rows = rows.rename_columns([names.get(name, name) for name in rows.column_names])
        shared_names = [name for name in context.schema.field_names if name in rows.column_names]
        group = rows_at(prepare(context, rows.select(shared_names)), partition, slot)
        yield from write_row_groups(context, [group], TaskIds(partition=number), table.storage)
