"""The commit that a writer proposes, and its condition: values for `transaction`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from workers.concurrency.conflicts import Conflict
from workers.concurrency.new_partitions import PartitionsAtStart
from workers.concurrency.read_set import ReadSet
from workers.concurrency.reader_divergence import DivergenceCounter
from workers.concurrency.republish import OutOfOrderWrite, RepublishPlan
from workers.schema.table_schema import TableSchema
from workers.timeline.extra_metadata import KeyCounts
from workers.timeline.metadata import CommitMetadata
from workers.timeline.timeline import Timeline

Condition = Callable[[Timeline], Conflict | Mapping[str, str]]
"""Takes the timeline under the lock; returns a conflict, or entries of the commit's metadata."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The commit that a writer proposes."""

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
    divergence: DivergenceCounter | None = None
    """Its file groups as other engines merge them, if they may get other rows."""
    divergent_keys: KeyCounts = field(default_factory=dict)
    """Counted by the validation."""
    out_of_order: OutOfOrderWrite | None = None
    """Its rows, if other engines may see them out of order."""
    republish: RepublishPlan | None = None
    """The parts to publish again, found by the validation."""
    reads: ReadSet = field(default_factory=ReadSet)
    """The read set, of which nothing may be undone before the commit."""
    partitions: PartitionsAtStart | None = None
    """None for a write without files."""

    @property
    def written_partitions(self) -> frozenset[str]:
        """The partitions that get files."""
        return frozenset(stat.partition_path for stat in self.metadata.stats)
