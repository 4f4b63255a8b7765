"""Rows of files as states: the columns of the table's schema, and those that merging needs beside.

Only tables with column groups have states (`workers.merge.group_state`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from workers.files.base_file import iterate_base_file, read_footer
from workers.files.meta_columns import META_COLUMNS, RECORD_KEY
from workers.merge.group_file import TOMBSTONES_KEY, read_tombstones
from workers.merge.group_state import SET, hidden_fields, is_hidden, to_states, with_absent
from workers.merge.versions import with_columns
from workers.options.column_groups import GroupRule
from workers.read.conformed import with_meta
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage


def deciding_columns(rule: GroupRule, schema: TableSchema) -> set[str]:
    """Columns of the schema that merging looks at whatever a reader asks for."""
    return set(rule.ages) & set(schema.field_names)


def physical_columns(
    rule: GroupRule, schema: TableSchema, wanted: Collection[str] | None
) -> list[str]:
    """What to read of a file so that its rows are whole states of these columns."""
    names = {*schema.field_names, *META_COLUMNS} if wanted is None else {*wanted, RECORD_KEY}
    return sorted({*names, *(one.name for one in _hidden(rule, schema, wanted))})


def base_states(
    storage: Storage,
    path: str,
    rule: GroupRule,
    schema: TableSchema,
    wanted: Collection[str] | None,
) -> Iterator[pa.Table]:
    """A base file's rows some at a time, then the deleted keys that it remembers.

    Raises NotFound, MalformedTable.
    """
    columns = physical_columns(rule, schema, wanted)
    for part in iterate_base_file(storage, path, columns):
        yield conformed_states(part, rule, schema, wanted)
    if text := read_footer(storage, path).get(TOMBSTONES_KEY):
        yield conformed_states(read_tombstones(text, path=path), rule, schema, wanted)


def conformed_states(
    rows: pa.Table, rule: GroupRule, schema: TableSchema, wanted: Collection[str] | None
) -> pa.Table:
    """Stored states under the schema: columns that came later are null."""
    stored = dict(zip(rows.column_names, rows.columns, strict=True))
    data = [name for name in stored if not is_hidden(name)]
    states = with_meta(rows.select(data), schema, wanted)
    hidden: dict[str, Any] = {
        field.name: stored[field.name].cast(field.type)
        if field.name in stored
        else pa.nulls(rows.num_rows, field.type)
        for field in _hidden(rule, schema, wanted)
    }
    return with_columns(states, hidden)


def block_states(
    rows: pa.Table,
    said: Collection[str],
    rule: GroupRule,
    schema: TableSchema,
    wanted: Collection[str] | None,
) -> pa.Table:
    """A log block's rows; `said` are the columns that its writer gave."""
    states = conformed_states(rows, rule, schema, wanted)
    groups = rule.groups(schema.field_names)
    if SET not in rows.column_names:
        hidden = [name for name in states.column_names if is_hidden(name)]
        return to_states(states.drop_columns(hidden), groups, said)
    return with_absent(states, groups, said)


def empty_states(rule: GroupRule, schema: TableSchema, wanted: Collection[str] | None) -> pa.Table:
    """No row, with the columns that `base_states` and `block_states` give for the same `wanted`."""
    return conformed_states(schema.arrow.empty_table(), rule, schema, wanted)


def _hidden(
    rule: GroupRule, schema: TableSchema, wanted: Collection[str] | None
) -> list[pa.Field[Any]]:
    names = set(schema.field_names)
    groups = [one for one in rule.groups(schema.field_names) if set(one.ordering) <= names]
    return hidden_fields(groups, schema.arrow, wanted)
