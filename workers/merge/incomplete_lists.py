"""The top-N lists that may miss elements, by key, and the changes that could make lists
incomplete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.merge.group_state import is_alive
from workers.merge.top_n_lists import has_retractions, is_incomplete, own_memories
from workers.options.column_groups import ColumnGroup

INCOMPLETE_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH, "column")]
)


def list_incomplete(states: pa.Table, groups: Sequence[ColumnGroup]) -> pa.Table:
    """Return a row for each incomplete list of live rows, with the schema `INCOMPLETE_SCHEMA`."""
    alive = states.filter(pa.array(is_alive(states)))
    named = [INCOMPLETE_SCHEMA.empty_table()]
    for column, (memory, aggregate) in own_memories(alive, groups).items():
        rows = alive.filter(pa.array(is_incomplete(memory, aggregate)))
        rows = rows.select([RECORD_KEY, PARTITION_PATH])
        columns = pa.repeat(pa.scalar(column), rows.num_rows)
        named.append(rows.append_column("column", columns).cast(INCOMPLETE_SCHEMA))
    return pa.concat_tables(named)


def has_removals(states: pa.Table, groups: Sequence[ColumnGroup]) -> bool:
    """Check if an element of some list is removed: nothing else makes a list incomplete."""
    return any(has_retractions(memory) for memory, _ in own_memories(states, groups).values())
