"""Which lists of the n greatest may miss elements: `table.inexact_lists()`.

A list with slack forgets what is beyond it. Once so many of its elements were retracted that one of
those could be among the n greatest, the list is not exact; `workers.merge.top_n_lists`
remembers this.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from workers.errors import NotFound
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.merge.incomplete_lists import INCOMPLETE_SCHEMA, list_incomplete
from workers.read.file_slice import merged_state_parts
from workers.read.snapshot import plan_snapshot
from workers.read.undisturbed import expired
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.table import Table


def inexact_lists(table: Table) -> pa.Table:
    """A row for each: `_hoodie_record_key`, `_hoodie_partition_path` and the list's `column`. Rows
    that the table's join hides are among them. Raises SnapshotExpired, and as `plan_snapshot`.
    """
    plan = plan_snapshot(table)
    return inexact_lists_of(table, plan.schema, plan.slices)


def inexact_lists_of(table: Table, schema: TableSchema, slices: Iterable[FileSlice]) -> pa.Table:
    """Those of some slices. Raises SnapshotExpired."""
    named, rule = [INCOMPLETE_SCHEMA.empty_table()], table.config.groups
    if rule is None:
        return named[0]
    groups = rule.groups(schema.field_names)
    wanted = {RECORD_KEY, PARTITION_PATH, *(name for one in groups for name in one.lists)}
    for slice_ in slices:
        parts = merged_state_parts(table.storage, table.config, schema, slice_, columns=wanted)
        try:
            named += [list_incomplete(states, groups) for states in parts]
        except NotFound as error:
            raise expired(error) from error
    return pa.concat_tables(named)
