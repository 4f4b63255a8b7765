"""Columns that begin with a value: a column group that is declared later gives every row that is
there already its defaults (`hoodie.multistream.groups`), without a file that says so.

What a snapshot shows windows of commits show too, so the commit that declared the group changed
those rows.
"""

from __future__ import annotations

from workers.options.table_options import TableConfig
from workers.schema.table_schema import TableSchema


def gains_defaults(config: TableConfig, before: TableSchema | None, after: TableSchema) -> bool:
    """Whether rows under `before` get values by being read under `after`."""
    if config.groups is None or before is None:
        return False
    new_columns = set(after.field_names) - set(before.field_names)
    return any(new_columns.intersection(group.defaults) for group in config.groups.declared)


def has_defaults(config: TableConfig) -> bool:
    """Whether a declared column group gives columns that came later a value of their own."""
    return config.groups is not None and any(one.defaults for one in config.groups.declared)


def columns_missing(before: TableSchema, after: TableSchema) -> frozenset[str]:
    """Columns of `after` that `before` does not have."""
    return frozenset(after.field_names) - frozenset(before.field_names)


def without_columns(schema: TableSchema, absent: frozenset[str]) -> TableSchema:
    """The schema as it was before `absent` came; itself when nothing is absent."""
    if not absent:
        return schema
    return schema.select([name for name in schema.field_names if name not in absent])
