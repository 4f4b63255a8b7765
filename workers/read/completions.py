"""When the commits that wrote rows became visible: which of two rows is the earlier one.

A row names its commit's request (`_hoodie_commit_time`), and when two commits overlapped, the first
requested need not have completed first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.files.meta_columns import COMMIT_TIME
from workers.table.table import Table
from workers.timeline.timeline import Timeline, with_archived

COMPLETED_AT = "_sluice_completed_at"
"""A column of rows in memory and between tasks, never of a file."""
COMPLETED_FIELD = pa.field(COMPLETED_AT, pa.string())


@dataclass(frozen=True, slots=True)
class Completions:
    """The completed writes of a table, archived ones too."""

    requested: pa.Array[Any]
    completed: pa.Array[Any]

    @classmethod
    def load(cls, table: Table, timeline: Timeline) -> Completions:
        """When each write that completed was requested and completed, archived ones included, but
        for those that the history lost.

        Raises MalformedTable.
        """
        writes = [
            one
            for one in with_archived(table.list_archived_times(is_partial=True), timeline.instants)
            if one.is_completed and one.action.writes_data
        ]
        return cls(
            pa.array([one.requested_at for one in writes], pa.string()),
            pa.array([one.completed_at for one in writes], pa.string()),
        )

    def with_completed_at(self, rows: pa.Table) -> pa.Table:
        """`rows` with a column `COMPLETED_AT`: when each row's commit became visible, or when it
        was requested where nothing is known of it.
        """
        requested = rows.column(COMMIT_TIME)
        known: Any = pc.index_in(requested, value_set=self.requested)
        completed: Any = self.completed.take(known.combine_chunks())
        return rows.append_column(COMPLETED_FIELD, pc.coalesce(completed, requested))
