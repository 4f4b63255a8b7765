"""The schema that a write works under, and the columns of it that the batch brings."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from workers.concurrency.ordered_deletes import check_deletes_compare
from workers.errors import InvalidInput
from workers.files.record_key import check_key_type
from workers.options.aggregates import Aggregate
from workers.options.column_groups import GroupRule
from workers.options.group_settings import Granularity
from workers.options.group_types import check_ordering_columns
from workers.options.table_options import TableConfig
from workers.options.write_options import WriteOptions
from workers.options.writer_modes import ConcurrencyMode
from workers.read.log_versions import IS_DELETED
from workers.schema.from_arrow import optional
from workers.schema.portable import check_portable
from workers.schema.reconcile import reconcile, select_changed_columns
from workers.schema.table_schema import TableSchema, find_repeated_names
from workers.schema.wider_types import can_add
from workers.table.table import Table
from workers.write.deletes import ordering_wrapper
from workers.write.request import WriteRequest


def writer_schema(
    table: Table,
    options: WriteOptions,
    request: WriteRequest,
    batch: pa.Schema | None,
    table_schema: TableSchema | None,
) -> TableSchema:
    """Return the table's schema with the batch's new columns; deleting never changes it.

    Raises InvalidInput naming the columns.
    """
    config = table.config
    if request.operation in ("delete", "delete_partition"):
        if table_schema is None:
            raise InvalidInput("the table has no schema yet, so there is nothing to delete")
        if batch is not None:
            _check_columns(batch, _get_delete_columns(config))
        return table_schema
    if batch is None:
        raise InvalidInput("the operation needs rows", operation=request.operation)
    _check_columns(batch, config.required_columns)
    if config.groups is not None:
        check_written_groups(config.groups, batch.names)
        if request.stream is not None:
            _check_brings_own_group(config.groups, request.stream, batch.names)
    if has_delete_marks(request, batch):
        batch = _without_delete_mark(table, request, batch, table_schema)
    if unknown := [name for name in options.sort_columns if name not in batch.names]:
        raise InvalidInput("columns to sort by are not in the batch", missing=unknown)
    if request.is_inferred and table_schema is not None:
        batch = optional(batch)
    schema = _reconcile_schema(config, options, batch, table_schema)
    is_blocking = options.mode is not ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL
    # Who never loses may meet a row that is gone.
    if not (request.only_updates and (is_blocking or request.needs_rows)):
        _check_required_columns(schema, batch)
    check_deletes_compare(table, table_schema, schema)
    for field in config.record_key:
        check_key_type(field, schema.arrow.field(field).type)
    if config.is_portable:
        check_portable(schema)
    return schema


def _reconcile_schema(
    config: TableConfig, options: WriteOptions, batch: pa.Schema, table_schema: TableSchema | None
) -> TableSchema:
    """The schema under which table and batch meet. Raises InvalidInput naming the column."""
    evolution, pinned = options.allows_evolution, config.pinned_columns
    if table_schema is not None:
        batch = select_changed_columns(
            batch,
            table_schema,
            evolution=evolution,
            pinned=pinned,
            ordering=config.ordering_columns,
        )
    new = TableSchema.from_arrow(batch, table_name=config.name)
    names = {*new.field_names, *(table_schema.field_names if table_schema is not None else ())}
    if empty := [name for name in config.required_columns if name not in names]:
        raise InvalidInput(
            "key, partition or ordering columns have no value in any row", columns=empty
        )
    if table_schema is not None and not new.field_names:
        return table_schema
    return reconcile(
        table_schema, new, evolution=evolution, pinned=pinned, ordering=config.ordering_columns
    )


def _check_required_columns(schema: TableSchema, batch: pa.Schema) -> None:
    """Check that the batch has all required columns: a row may be new, however few columns a batch
    brings. Raises InvalidInput.
    """
    batch_names = set(batch.names)
    lacking = [
        field.name
        for field in schema.tree.fields
        if not can_add(field) and field.name not in batch_names
    ]
    if lacking:
        raise InvalidInput("the batch lacks columns that the table requires", missing=lacking)


def _get_delete_columns(config: TableConfig) -> tuple[str, ...]:
    """Return the columns that identify a row to delete: under a global index its key alone."""
    if config.is_global:
        return config.record_key
    return (*config.record_key, *config.partition_by)


def list_written_columns(
    table: Table, request: WriteRequest, batch: pa.Schema | None, schema: TableSchema
) -> tuple[str, ...]:
    """Return the columns of the write's files, in the schema's order: those that locate rows to
    delete, a stream's own columns, or all.
    """
    config = table.config
    names = schema.field_names
    if request.operation in ("delete", "delete_partition"):
        located = set(_get_delete_columns(config))
        if request.is_ordered:
            located.add(config.ordering_field or "")
        return tuple(name for name in names if name in located)
    # Under a global index a row may leave its file group, and takes all of its columns along.
    if config.takes_narrow_rows and batch is not None and not config.is_global:
        batch_names = set(batch.names)
        return tuple(name for name in names if name in batch_names)
    return names


def has_delete_marks(request: WriteRequest, batch: pa.Schema | None) -> bool:
    """Check whether rows of the batch may be deletes."""
    return request.operation != "delete" and batch is not None and IS_DELETED in batch.names


def _without_delete_mark(
    table: Table, request: WriteRequest, batch: pa.Schema, table_schema: TableSchema | None
) -> pa.Schema:
    """Drop the mark of deletes, which is not a column of the table unless the table was created
    with it.
    """
    if not pa.types.is_boolean(batch.field(IS_DELETED).type):
        raise InvalidInput("the delete mark is a boolean column", column=IS_DELETED)
    if table.config.groups is not None:
        return batch.remove(batch.get_field_index(IS_DELETED))
    if request.stream is not None:
        raise InvalidInput(
            "a stream cannot take rows away that other streams wrote too", column=IS_DELETED
        )
    if table.config.ordering_field is not None:
        ordering_wrapper(batch.field(table.config.ordering_field).type)
    if table_schema is not None and IS_DELETED in table_schema.field_names:
        return batch
    return batch.remove(batch.get_field_index(IS_DELETED))


def _check_brings_own_group(rule: GroupRule, stream: str, brought_names: Sequence[str]) -> None:
    own = [
        brought_group
        for brought_group in rule.groups(brought_names)
        if brought_group.name == stream
    ]
    columns = [name for group in own for name in group.all_columns]
    if not set(columns).intersection(brought_names):
        raise InvalidInput(
            "the batch brings no column of its stream's group: name the stream whose columns it "
            "brings, or leave `stream` out",
            stream=stream,
            columns=columns,
            brought=list(brought_names),
        )


def check_written_groups(rule: GroupRule, brought_names: Sequence[str]) -> None:
    """Check that a batch has whole column groups. Raises InvalidInput for a batch that brings a
    group in part, or deletes what cannot go.
    """
    names, is_deleting = set(brought_names), IS_DELETED in brought_names
    columns = [name for name in brought_names if name != IS_DELETED]
    check_ordering_columns(rule, columns)
    if not is_deleting and not set(columns) - rule.apart:
        raise InvalidInput(
            "the batch brings keys only, so its rows would have no values and be hidden: bring a "
            "column of a group or of no group",
            brought=columns,
        )
    for group in rule.groups(columns):
        group_columns = [name for name in group.all_columns if name in names]
        if not group_columns:
            continue
        if missing := [name for name in group.ordering if name not in names]:
            raise InvalidInput(
                "the batch brings columns of a group without what orders them",
                group=group.name,
                brought=group_columns,
                missing=missing,
            )
        missing = [] if is_deleting else [n for n in group.columns if n not in names]
        if missing and group.granularity is Granularity.GROUP:
            raise InvalidInput(
                "the group is replaced as a whole, and the batch lacks some of its columns; bring "
                "them, or declare the group with granularity=column",
                group=group.name,
                missing=missing,
            )
        if is_deleting and not all(
            aggregate.kind is Aggregate.LAST_NON_NULL for aggregate in group.aggregates.values()
        ):
            of_lists = "elements with a null score take items out of its lists, and "
            has_lists = any(
                aggregate_list.is_retractable for aggregate_list in group.lists.values()
            )
            raise InvalidInput(
                "versions of a group with aggregates cannot be taken back alone: "
                f"{of_lists if has_lists else ''}table.delete(keys) erases its row",
                group=group.name,
            )


def _check_columns(batch: pa.Schema, names: tuple[str, ...]) -> None:
    if missing := [name for name in names if name not in batch.names]:
        raise InvalidInput("the batch lacks key, partition or ordering columns", missing=missing)
    if twice := find_repeated_names(batch.names):
        raise InvalidInput("the batch has columns of the same name", columns=twice)
