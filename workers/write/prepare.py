"""A batch made ready for placement: conformed to the writer schema, with record key, partition path
and slot.

Whatever breaks the table's rules is refused here, before a file is written, with the rows or
columns named.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import BadRows, InvalidInput
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.files.partition_paths import NESTED, row_partition_paths
from workers.files.record_key import EMPTY_VALUE, NULL_VALUE, composite_keys, key_value_texts
from workers.files.time_texts import Unformatted
from workers.index.bucket import (
    Buckets,
    bucket_of_composite_keys,
    bucket_of_keys,
    endless_keys,
    shares_of_keys,
)
from workers.merge.versions import DELETE, DELETE_NOW, DELETED_FIELD, ROW
from workers.options.column_groups import GroupRule
from workers.options.table_options import TableConfig
from workers.read.log_versions import IS_DELETED
from workers.schema.bad_rows import bad_rows, name_keys, reject_rows
from workers.schema.reconcile import conform
from workers.schema.table_schema import TableSchema
from workers.write.context import WriteContext

SLOT = "_sluice_slot"
SHARES = 64
"""Under an index that looks up keys a prepared row has no slot yet: it has the share of its key, so
that all rows of a key meet wherever they come from.
"""
ANYWHERE = "*"
"""The partition path, which no partition has, of rows that name their key alone."""
Located = tuple["pa.Array[Any]", Buckets]
"""Record keys and their slots, or shares."""


def prepare(
    context: WriteContext,
    batch: pa.Table | pa.RecordBatch,
    located: Callable[[pa.Table], Located] | None = None,
) -> pa.Table:
    """Return the context's columns plus record key, partition path and slot. `located` finds keys
    and slots of the conformed rows for a caller who knows a shorter way. Raises InvalidInput.
    """
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    if context.operation == "delete":
        table = table.select(list(context.columns))
    kinds = _kinds(context, table) if context.marks_deletes else None
    if kinds is not None and IS_DELETED not in context.columns:
        table = table.drop_columns([IS_DELETED])
    excused: Any = None
    if kinds is not None and IS_DELETED not in context.columns:
        excused = pc.not_equal(kinds, pa.scalar(ROW, pa.int8()))
    try:
        rows = conform(table, context.schema, columns=list(context.columns), excused=excused)
    except BadRows as error:
        name_keys(error, table, context.config.record_key)
        raise
    _check_ordering(context, rows)
    keys, slots = keys_and_slots(context, rows) if located is None else located(rows)
    is_located = set(context.config.partition_by) <= set(context.columns)
    paths = _anywhere(rows)
    if is_located:
        is_new = context.operation != "delete"
        paths = _partition_paths(context.config, rows, is_new=is_new)
        if is_new:
            _check_nested_partitions(context, paths)
    prepared = (
        rows.append_column(pa.field(RECORD_KEY, pa.string()), keys)
        .append_column(pa.field(PARTITION_PATH, pa.string()), paths)
        .append_column(pa.field(SLOT, pa.int32()), pa.array(slots, pa.int32()))
    )
    return prepared if kinds is None else prepared.append_column(DELETED_FIELD, kinds)


def build_prepared_schema(context: WriteContext) -> pa.Schema:
    """Build the schema of the rows that `prepare` returns."""
    arrow = context.schema.arrow
    return pa.schema(
        [
            *(arrow.field(name) for name in context.columns),
            pa.field(RECORD_KEY, pa.string()),
            pa.field(PARTITION_PATH, pa.string()),
            pa.field(SLOT, pa.int32()),
            *([DELETED_FIELD] if context.marks_deletes else []),
        ]
    )


def _kinds(context: WriteContext, table: pa.Table) -> pa.Array[Any]:
    """Return which rows are deletes, in the merge's terms; one that competes needs an ordering
    value.
    """
    flags: Any = _combine_column(table.column(IS_DELETED))
    is_delete: Any = pc.fill_null(flags, False)
    ordering = context.config.ordering_field
    if context.rule.groups is not None:
        _check_deleted_groups(context.rule.groups, table, is_delete)
        kind: Any = pa.scalar(DELETE, pa.int8())
        return cast("pa.Array[Any]", pc.if_else(is_delete, kind, pa.scalar(ROW, pa.int8())))
    if ordering is not None:
        is_unordered = pc.is_null(_combine_column(table.column(ordering)))
        reject_rows(pc.and_(is_delete, is_unordered), "a delete has no ordering value", ordering)
    kind = pa.scalar(DELETE_NOW if ordering is None else DELETE, pa.int8())
    kinds: pa.Array[Any] = pc.if_else(is_delete, kind, pa.scalar(ROW, pa.int8()))
    return kinds


def _check_deleted_groups(rule: GroupRule, table: pa.Table, is_delete: Any) -> None:
    ages = [name for name in rule.ages if name in table.column_names]
    is_old = [pc.is_null(_combine_column(table.column(name))) for name in ages]
    if not is_old:
        raise InvalidInput("a delete names the groups that it takes away by their ordering columns")
    nothing = functools.reduce(pc.and_, is_old)
    reject_rows(pc.and_(is_delete, nothing), "a delete has no ordering value", ", ".join(ages))


def keys_and_slots(context: WriteContext, rows: pa.Table) -> Located:
    """Record keys and slots of conformed rows that have the key columns. Raises BadRows for what is
    no key.
    """
    config = context.config
    fields = config.record_key
    texts: list[Any] = [
        key_value_texts(name, _combine_column(rows.column(name))) for name in fields
    ]
    if not config.names_key_fields:
        (keys,), (field,) = texts, fields
        reject_rows(pc.is_null(keys), "record key is null", field)
        reject_rows(pc.equal(keys, pa.scalar("")), "record key is empty", field)
        if context.looks_up:
            return keys, shares_of_keys(keys, SHARES)
        return keys, bucket_of_keys(keys, buckets=config.buckets, key_field=field)
    missing = [pc.fill_null(pc.equal(text, pa.scalar("")), True) for text in texts]
    reject_rows(functools.reduce(pc.and_, missing), "record key is null", ", ".join(fields))
    for field, text in zip(fields, texts, strict=True):
        is_special = pc.is_in(text, value_set=pa.array([NULL_VALUE, EMPTY_VALUE]))
        reject_rows(is_special, "record key is spelled like a missing value", field)
    keys = composite_keys(fields, texts)
    if context.looks_up:
        return keys, shares_of_keys(keys, SHARES)
    if context.operation != "delete":  # Rows that came before this check can be deleted.
        _check_parsable_keys(config, keys, texts)
    slots = bucket_of_composite_keys(
        keys, texts, buckets=config.buckets, fields=fields, index_fields=config.index_fields
    )
    return keys, slots


def _check_parsable_keys(config: TableConfig, keys: pa.Array[Any], texts: Sequence[Any]) -> None:
    """Check that Hudi can parse the keys: a key on which its parser hangs stops every writer and
    reader that searches for it. Raises BadRows.
    """
    endless = endless_keys(keys, texts, fields=config.record_key, index_fields=config.index_fields)
    if len(endless):
        raise bad_rows(
            endless.tolist(),
            "record key holds ':' so that Hudi never ends parsing it, as some of its fields are "
            "hashed, or values hold ',' too",
            ", ".join(config.record_key),
            hashed=", ".join(config.index_fields),
            first_key=keys[int(endless[0])].as_py(),
        )


def _check_ordering(context: WriteContext, rows: pa.Table) -> None:
    groups, field = context.rule.groups, context.config.ordering_field
    ages: tuple[str, ...] = () if field is None else (field,)
    if groups is not None:
        ages = groups.ages
    for name in ages:
        if name in context.columns:
            _check_not_nan(rows, name)


def _check_not_nan(rows: pa.Table, field: str) -> None:
    if pa.types.is_floating(rows.schema.field(field).type):
        reject_rows(pc.is_nan(_combine_column(rows.column(field))), "ordering value is NaN", field)


def find_partition_paths(
    config: TableConfig, schema: TableSchema, rows: pa.Table
) -> frozenset[str]:
    """Return the partitions that these rows belong to; for plans, before a write begins."""
    fields = list(config.partition_by)
    if not fields:
        return frozenset({""})
    values = conform(rows.select(fields), schema, columns=fields).group_by(fields).aggregate([])
    return frozenset(str(path) for path in _partition_paths(config, values).to_pylist())


def _partition_paths(config: TableConfig, rows: pa.Table, *, is_new: bool = False) -> pa.Array[Any]:
    try:
        return row_partition_paths(config, rows, is_new=is_new)
    except Unformatted as error:
        values = rows.column(error.column).filter(pc.fill_null(error.is_bad, False))
        named = values.slice(0, 1).cast(pa.string()).to_pylist()
        reject_rows(error.is_bad, error.message, error.column, first_value=named[0])
        raise


def _check_nested_partitions(context: WriteContext, paths: pa.Array[Any]) -> None:
    """Check that no partitions of the rows nest. Raises BadRows for the rows of one of them. Rows
    of other tasks are not checked here.
    """
    batch_paths: Any = paths.unique()
    if (pair := context.partitions.find_nested(batch_paths.to_pylist())) is not None:
        outer, inner = pair
        is_bad: Any = pc.equal(paths, pa.scalar(inner))
        if not pc.any(is_bad).as_py():
            is_bad = pc.equal(paths, pa.scalar(outer))
        columns = ", ".join(context.config.partition_by)
        reject_rows(is_bad, NESTED, columns, outer=outer, inner=inner)


def _anywhere(rows: pa.Table) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(ANYWHERE, pa.string()), rows.num_rows)


def _combine_column(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    combined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    assert isinstance(combined, pa.Array), "more text than one Arrow array holds"
    return combined
