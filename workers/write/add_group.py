"""Declare one more column group on a table that others may be writing: a new stream joins.

No cell is touched: the group's columns are new to the table, so no file holds them yet. The group
is declared before its columns join the schema; writers that opened the table earlier do not know
the group, and are sent back when they begin (`Table.check_writable`). The table's join does not ask
for the new group: no row has it, so every row would vanish, those of the past too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from workers.concurrency.lock_takeover import table_lock
from workers.concurrency.outcome import CommitOutcome
from workers.errors import InvalidInput
from workers.files.properties import load_properties, store_properties
from workers.options.column_groups import (
    ColumnGroup,
    GroupRule,
    check_groups,
    groups_json,
    spell_out_join,
)
from workers.options.group_keys import GROUPS_KEY, JOIN_KEY
from workers.options.group_types import check_group_columns
from workers.options.table_options import config_from_properties
from workers.options.write_options import WriteOptions
from workers.schema.alter import AddColumn
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.table import open_ as open_table
from workers.write.alter import alter_schema


def add_group(
    table: Table, options: WriteOptions, group: ColumnGroup, types: Mapping[str, pa.DataType]
) -> CommitOutcome | None:
    """Declare the group and add its columns. `types` are those of the group's columns, its ordering
    among them. A rerun finishes what a crash left half done. Return None when nothing is left to
    do.

    Raises InvalidInput before anything is written, LockTimeout; UnsupportedTable or TableChanged,
    with nothing declared, if another engine changed the table's properties in between.
    """
    table.check_writable()
    if set(types) != set(group.all_columns):
        raise InvalidInput(
            "a new group comes with the types of exactly its columns",
            group=group.name,
            missing=sorted(set(group.all_columns) - set(types)),
            unknown=sorted(set(types) - set(group.all_columns)),
        )
    with table_lock(table, options).hold() as lease:
        properties = load_properties(table.storage)
        table.check_unchanged(properties)
        grown = _build_extended_rule(table, properties, group, types)
        if grown is not None:
            lease.confirm()
            changed = {**properties, GROUPS_KEY: groups_json(grown.declared)}
            if JOIN_KEY in properties:
                changed[JOIN_KEY] = spell_out_join(properties[JOIN_KEY], grown.required)
            store_properties(table.storage, changed, read=properties)
    opened = open_table(table.storage, table.ports)
    existing_names = _list_field_names(opened)
    changes = [
        AddColumn(name, types[name]) for name in group.all_columns if name not in existing_names
    ]
    return alter_schema(opened, options, changes) if changes else None


def _build_extended_rule(
    table: Table,
    properties: Mapping[str, str],
    group: ColumnGroup,
    types: Mapping[str, pa.DataType],
) -> GroupRule | None:
    """Return the rule with the new group; None when it is declared already. Raises InvalidInput."""
    rule = config_from_properties(properties).groups
    if rule is None:
        raise InvalidInput(
            "the table was created without column groups; its rows have one age each",
            table=table.config.name,
            needs=GROUPS_KEY,
        )
    if group in rule.declared:
        return None
    declared = (*rule.declared, group)
    check_groups(declared)
    schema = load_schema(table)
    fields = [] if schema is None else list(schema.arrow)
    if held := sorted(set(group.all_columns) & {field.name for field in fields}):
        raise InvalidInput("columns of a new group are new to the table", columns=held)
    grown = replace(rule, declared=declared)
    check_group_columns(grown, pa.schema([*fields, *(pa.field(n, t) for n, t in types.items())]))
    return grown


def _list_field_names(table: Table) -> set[str]:
    schema = load_schema(table)
    return set() if schema is None else set(schema.field_names)
