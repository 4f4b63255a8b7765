"""Which lists of the n greatest may miss elements: `table.inexact_lists()`.

A list with slack forgets what is beyond it. Once so many of its elements were retracted that one of
those could be among the n greatest, the list is not exact; `workers.merge.collected_lists`
remembers this.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from workers.errors import NotFound
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.merge.collected_lists import is_inexact, own_memories
from workers.merge.group_state import is_alive
from workers.read.file_slice import merged_state_parts
from workers.read.snapshot import plan_snapshot
from workers.read.undisturbed import expired
from workers.table.table import Table

_FOUND: Final = pa.schema([(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH, "column")])


def inexact_lists(table: Table) -> pa.Table:
    """A row for each: `_hoodie_record_key`, `_hoodie_partition_path` and the list's `column`. Rows
    that the table's join hides are among them. Raises SnapshotExpired, and as `plan_snapshot`.
    """
    plan, rule = plan_snapshot(table), table.config.groups
    inexact = [_FOUND.empty_table()]
    if rule is None:
        return inexact[0]
    groups = rule.groups(plan.schema.field_names)
    wanted = {RECORD_KEY, PARTITION_PATH, *(name for one in groups for name in one.lists)}
    for slice_ in plan.slices:
        parts = merged_state_parts(table.storage, table.config, plan.schema, slice_, columns=wanted)
        try:
            for states in parts:
                alive = states.filter(pa.array(is_alive(states)))
                for column, (memory, aggregate) in own_memories(alive, groups).items():
                    rows = alive.filter(pa.array(is_inexact(memory, aggregate)))
                    rows = rows.select([RECORD_KEY, PARTITION_PATH])
                    named = pa.repeat(pa.scalar(column), rows.num_rows)
                    inexact.append(rows.append_column("column", named).cast(_FOUND))
        except NotFound as error:
            raise expired(error) from error
    return pa.concat_tables(inexact)
