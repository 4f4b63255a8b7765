"""What a writer wants to publish, and under which condition: values for `transaction`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from workers.concurrency.conflicts import Conflict
from workers.concurrency.new_partitions import PartitionsAtStart
from workers.concurrency.read_otherwise import ReadOtherwise
from workers.concurrency.read_set import ReadSet
from workers.concurrency.restating import Overtaken, Restatement
from workers.schema.table_schema import TableSchema
from workers.timeline.metadata import CommitMetadata
from workers.timeline.read_otherwise import KeyCounts
from workers.timeline.timeline import Timeline

Condition = Callable[[Timeline], Conflict | Mapping[str, str]]
"""Of the timeline under the lock: why not to commit, or what the commit tells besides."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a writer wants to publish."""

    metadata: CommitMetadata
    schema: TableSchema
    writer: str
    rows: int
    whole_partitions: frozenset[str] = frozenset()
    """Partitions that this replaces as a whole."""
    is_whole_table: bool = False
    written: frozenset[str] | None = None
    """Columns into which the files bring values; None without files."""
    deletes_only: bool = False
    """Brings no schema of its own: the table's stays as it is."""
    condition: Condition | None = None
    read_otherwise: ReadOtherwise | None = None
    """What other engines make of its file groups, where they may come to other rows."""
    keys_read_otherwise: KeyCounts = field(default_factory=dict)
    """Counted when this was validated."""
    overtaken: Overtaken | None = None
    """Its rows, where other engines may see them behind those of commits that passed it."""
    again: Restatement | None = None
    """What is to be stated again, found when this was validated."""
    reads: ReadSet = field(default_factory=ReadSet)
    """What decided about its rows; nothing of it may be undone before the commit."""
    partitions: PartitionsAtStart | None = None
    """None for what writes no file."""

    @property
    def written_partitions(self) -> frozenset[str]:
        """The partitions that get files."""
        return frozenset(stat.partition_path for stat in self.metadata.stats)
