"""The compaction kind of rewrite: the file group stays, its slice gets a new base."""

from __future__ import annotations

from collections.abc import Sequence

from workers.schema.table_schema import TableSchema
from workers.table.table import Table
from workers.table_services.row_order import RowOrder
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import CommitMetadata, WriteStat, commit_metadata
from workers.timeline.service_plans import PlannedSlice
from workers.timeline.timeline import Timeline

SERVICE = "compaction"


class CompactionKind:
    """See RewriteKind."""

    service = SERVICE
    action = Action.COMPACTION

    def file_id(self, plan: Instant, old: PlannedSlice) -> str:
        """Return the slice's own id."""
        return old.file_id

    def order_of_rows(self, schema: TableSchema) -> RowOrder | None:
        """Return None: rows stay in the order of the slice."""
        return None

    def validate(
        self, table: Table, timeline: Timeline, plan: Instant, slices: Sequence[PlannedSlice]
    ) -> None:
        """Writers by its side do no harm: what completed since the plan is of the next slice."""

    def metadata(
        self, stats: list[WriteStat], slices: Sequence[PlannedSlice], extra: dict[str, str]
    ) -> CommitMetadata:
        """Build the metadata of a commit, with the operation type of a compaction."""
        return commit_metadata(stats, extra=extra, operation_type="COMPACT", compacted=True)
