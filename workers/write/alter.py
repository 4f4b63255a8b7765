"""Alter a table's schema: one commit, under the same transaction and validation as every write.

Adding, dropping, widening and relaxing touch no data file. A column becomes required when no stored
row lacks it. That is checked before the commit and, if others committed since, again under the
lock. A rename rewrites the table as one replacecommit, because every reader projects by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workers.concurrency import transaction
from workers.concurrency.begin import StartedTransaction
from workers.concurrency.heartbeat import HeartbeatContent
from workers.concurrency.ordered_deletes import check_deletes_compare
from workers.concurrency.outcome import CommitOutcome
from workers.concurrency.proposal import Proposal
from workers.errors import InvalidInput
from workers.options.group_types import check_ordering_columns
from workers.options.write_options import WriteOptions
from workers.recovery.failed_writes import clean_before_write
from workers.schema.alter import (
    AddColumn,
    DropColumn,
    RelaxColumn,
    RenameColumn,
    RequireColumn,
    SchemaChange,
    WidenColumn,
    get_renames,
)
from workers.schema.portable import check_portable
from workers.schema.strategies import check_strategy
from workers.schema.table_schema import TableSchema
from workers.table.creation import CREATION_OPERATION
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.timeline import metadata
from workers.timeline.timeline import Timeline
from workers.write.client import Transaction
from workers.write.column_rename import apply_table_changes, rewrite_renamed
from workers.write.request import WriteRequest
from workers.write.status import WriteStatus
from workers.write.stored_columns import NullCheck, find_stored_columns

_HOLDS_NULL: Final = (
    "stored rows hold null in the column, so it cannot be required; give them a value first, and "
    "compact where a log hides the old row"
)
_HAS_ROWS: Final = (
    "rows that are there have no value for a new required column, and other engines do not fill in "
    "its default: they could not read the table; add a column that may be null, give it values, "
    "then make it required"
)


def alter_schema(
    table: Table, options: WriteOptions, changes: Sequence[SchemaChange]
) -> CommitOutcome:
    """Commit the table's schema with `changes`, all of them or none.

    Raises InvalidInput before anything is written, LockTimeout.
    """
    table.check_writable()
    check_strategy(options.schema_strategy)
    timeline = table.timeline()
    schema = load_schema(table, timeline)
    check_deletes_compare(table, schema, _build_altered_schema(table, timeline, schema, changes))
    if get_renames(changes):
        if required := sorted(_collect_refusals(changes)):
            raise InvalidInput(
                "a rename rewrites the table, and what becomes required is a change of its own",
                columns=required,
            )
        return rewrite_renamed(table, options, changes)
    clean_before_write(table, options)
    writer = options.writer or f"writer-{table.ports.ids.token()[:8]}"
    content = HeartbeatContent(options, writer, "alter_schema", None)
    started = transaction.begin(table, options, content)
    attempt = _Alteration(table, options, writer, WriteRequest(), started)
    try:
        attempt.build_schema(changes)
    except Exception as error:
        attempt.fail(error)
        raise
    return attempt.commit([], condition=attempt.nulls.check_under_lock)


class _Alteration(Transaction):
    """Commits a schema and no files."""

    _schema: TableSchema
    nulls: NullCheck

    def build_schema(self, changes: Sequence[SchemaChange]) -> None:
        """Build the schema to commit from the one that this started from. Raises InvalidInput."""
        table, started = self._table, self._started
        start_schema = _find_start_schema(table, started)
        self._schema = _build_altered_schema(table, started.timeline, start_schema, changes)
        check_deletes_compare(table, start_schema, self._schema)
        self.nulls = NullCheck(table, self._schema, _collect_refusals(changes))
        self.nulls.check(started.timeline)

    def _build_proposal(self, written: list[WriteStatus]) -> Proposal:
        assert not written, written
        extra = {metadata.WRITER_KEY: self._writer, metadata.ROWS_KEY: "0"}
        if self._options.operation_id:
            extra[metadata.OPERATION_KEY] = self._options.operation_id
        content = metadata.commit_metadata([], extra=extra, operation_type=CREATION_OPERATION)
        return Proposal(content, self._schema, self._writer, 0)


def _find_start_schema(table: Table, started: StartedTransaction) -> TableSchema | None:
    return started.schema.schema if started.schema else load_schema(table, started.timeline)


def _build_altered_schema(
    table: Table, timeline: Timeline, current: TableSchema | None, changes: Sequence[SchemaChange]
) -> TableSchema:
    """Apply the changes to the table's schema. A dropped name is free again if no visible file
    holds it; only then are files read. Raises InvalidInput.
    """
    if current is None:
        raise InvalidInput("the table has no schema yet; the first write decides it")
    added = {change.name.lower() for change in changes if isinstance(change, AddColumn)}
    if reused_names := added & set(current.dropped):
        held = find_stored_columns(table, timeline)
        current = current.without_dropped(reused_names - held)
    _check_grouped(table, changes)
    _check_narrow(table, changes)
    schema = apply_table_changes(table, current, changes)
    if table.config.is_portable:
        check_portable(schema)
    return schema


def _check_grouped(table: Table, changes: Sequence[SchemaChange]) -> None:
    """Check that a table with column groups can follow the changes. Raises InvalidInput."""
    if (groups := table.config.groups) is None:
        return
    if names := get_renames(changes):
        raise InvalidInput(
            "a table with column groups is not rewritten for a rename: the ages of its cells would "
            "be lost; add a column instead",
            columns=sorted(names),
        )
    if required := sorted(groups.grouped.intersection(_collect_refusals(changes))):
        raise InvalidInput(
            "columns of groups may be null: a row may lack a group", columns=required
        )
    check_ordering_columns(
        groups, [change.name for change in changes if isinstance(change, AddColumn)]
    )
    dropped = {change.name for change in changes if isinstance(change, DropColumn)}
    if held := sorted(groups.grouped & dropped):
        raise InvalidInput("a column of a group stays: its stream writes it", columns=held)


def _check_narrow(table: Table, changes: Sequence[SchemaChange]) -> None:
    """Check that no column gets a default in a table whose batches may bring some columns only.
    Raises InvalidInput.
    """
    added = [
        change for change in changes if isinstance(change, AddColumn) and not change.is_nullable
    ]
    if added and table.config.takes_narrow_rows:
        raise InvalidInput(
            "a narrow row says nothing of the columns that it leaves out, also of one that has a "
            "default; add it as one that may be null",
            columns=[change.name for change in added],
        )


def _collect_refusals(changes: Sequence[SchemaChange]) -> dict[str, str]:
    """Return the columns that become required, with the message if stored rows lack them."""
    refusals: dict[str, str] = {}
    for change in changes:
        match change:
            case RequireColumn(name):
                refusals[name] = _HOLDS_NULL
            case AddColumn(name, is_nullable=False):
                refusals[name] = _HAS_ROWS
            case DropColumn(name) | RelaxColumn(name):
                refusals.pop(name, None)
            case AddColumn() | RenameColumn() | WidenColumn():
                pass
    return refusals
