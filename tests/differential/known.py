"""What stories leave out: faults that are known, and what hudi-rs reads in another way.

A fault goes from here with its repair: delete its constant and the lines that name it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.lakehouse import LakehouseTable
from workers.table.schema_history import read_instant
from workers.timeline.extra_metadata import CommittedCounts, decode_counts, remaining_counts

if TYPE_CHECKING:
    from tests.differential.story import Story


def excuse(story: Story, table: LakehouseTable) -> str:
    """Return why hudi-rs may read other rows of the table as it is now, else an empty text."""
    if keys_read_otherwise(table):
        return "commits count keys that other engines read differently"
    has_logs = any(one.log_files for one in table.file_groups())
    if has_logs and story.shape.has_groups:
        return "no other engine merges logs of column groups"
    if has_logs and story.is_altered:
        return "logs of rows that lack a column, or have another type (docs/invariants.md)"
    return ""


def keys_read_otherwise(table: LakehouseTable) -> int:
    """Return how many keys other engines read differently, as the commits of the table say."""
    writes = table.table.timeline().list_completed_writes()
    commits = [
        CommittedCounts(
            one.completed_at, decode_counts(read_instant(table.table, one).extra_metadata)
        )
        for one in writes
    ]
    bases = {(one.partition, one.file_id): one.base_instant for one in table.file_groups()}
    return sum(remaining_counts(commits, bases).values())
