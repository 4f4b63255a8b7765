"""The service `clustering`: which slices are sorted, by what, and how that is shown.

The rows move to a new file group, of the same bucket if any. A writer that completed in one of the
file groups since the plan was made wins: the plan is discarded. A writer that completes afterwards
loses, because its file group is gone (`concurrency/conflicts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.concurrency.conflicts import WriteSet, overlapping_file_groups, write_set
from workers.errors import InvalidInput, MalformedTable, PlanOvertaken
from workers.files.names import bucket_file_id, new_file_id, parse_bucket_number
from workers.options.service_keys import SORT_COLUMNS_KEY
from workers.schema.table_schema import TableSchema
from workers.table.schema_history import load_schema, read_instant
from workers.table.table import Table
from workers.table_services.clustering.proposal import CLUSTER_OPERATION, Proposal, propose
from workers.table_services.clustering.settings import (
    ClusteringSettings,
    format_strategy,
    parse_clustering_settings,
    parse_order,
)
from workers.table_services.rewrite_execution import (
    RewriteKind,
    RewriteResult,
)
from workers.table_services.rewrite_service import RewriteProposal, RewriteService
from workers.table_services.row_order import RowOrder, check_order
from workers.table_services.service import (
    PlanItem,
    ServicePlan,
)
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import (
    WRITER_KEY,
    CommitMetadata,
    WriteStat,
    commit_metadata,
)
from workers.timeline.pending_plans import plan_content
from workers.timeline.service_plans import PlannedSlice, read_clustering_plan
from workers.timeline.timeline import Timeline

SERVICE = "clustering"


@dataclass(frozen=True, slots=True)
class ClusteringKind:
    """See RewriteKind."""

    order: RowOrder
    looks_up: bool = False
    """The table's index looks up keys, so a file group may have any id."""

    service = SERVICE
    action = Action.CLUSTERING

    @classmethod
    def of_plan(cls, plan_content: bytes, *, looks_up: bool = False) -> ClusteringKind:
        """Parse the clustering that a plan's file asks for. Raises MalformedTable, and InvalidInput
        for an unknown order.
        """
        plan = read_clustering_plan(plan_content) if plan_content else None
        return cls(parse_order(plan.strategy if plan else {}), looks_up)

    def file_id(self, plan: Instant, old: PlannedSlice) -> str:
        """Return a new id that only this plan gives, of the same bucket unless the table's index
        looks up keys. Raises MalformedTable for a file group without a bucket.
        """
        if self.looks_up:
            return new_file_id(plan.requested_at, old.partition, old.file_id)
        bucket = parse_bucket_number(old.file_id)
        if bucket is None:
            raise MalformedTable("file group is of no bucket", file_id=old.file_id)
        return bucket_file_id(bucket, after=plan.requested_at)

    def order_of_rows(self, schema: TableSchema) -> RowOrder | None:
        """Return the plan's order. Raises InvalidInput if the table's columns do not allow it."""
        check_order(self.order, schema.arrow)
        return self.order

    def validate(
        self, table: Table, timeline: Timeline, plan: Instant, slices: Sequence[PlannedSlice]
    ) -> None:
        """Check, under the table lock, that the plan can still come true.

        Raises PlanOvertaken when a write completed in one of the file groups since the plan was
        made, MalformedTable.
        """
        groups = frozenset(slice_.key for slice_ in slices)
        ours = WriteSet(plan.requested_at, groups, SERVICE, replaced=groups)
        for rival in timeline.list_completed_writes():
            if rival.completed_at <= plan.requested_at:
                continue
            metadata = read_instant(table, rival)
            writer = metadata.extra_metadata.get(WRITER_KEY)
            if conflict := overlapping_file_groups(
                ours, write_set(rival.requested_at, metadata, writer)
            ):
                raise PlanOvertaken(
                    conflict.message, rival=conflict.rival, writer=conflict.rival_writer
                )

    def metadata(
        self, stats: list[WriteStat], slices: Sequence[PlannedSlice], extra: dict[str, str]
    ) -> CommitMetadata:
        """Build the metadata of the replacecommit: the new files, the file groups that they
        replace, and the order of rows.
        """
        replaced: dict[str, list[str]] = {}
        for slice_ in slices:
            replaced.setdefault(slice_.partition, []).append(slice_.file_id)
        return commit_metadata(
            stats,
            extra={**extra, **format_strategy(self.order)},
            operation_type=CLUSTER_OPERATION,
            replaced=replaced,
        )


@dataclass(frozen=True, slots=True)
class ClusteringService(RewriteService[ClusteringSettings]):
    """Rewrites file slices in another order of their rows."""

    SERVICE = SERVICE
    ACTION = Action.CLUSTERING
    EFFECT = "rewrite"

    def settings(self, parameters: Mapping[str, str]) -> ClusteringSettings:
        """Implement RewriteService."""
        return parse_clustering_settings(parameters)

    def make_proposal(
        self, table: Table, timeline: Timeline, settings: ClusteringSettings
    ) -> RewriteProposal:
        """Implement RewriteService."""
        proposal = propose(table, timeline, settings)

        def encode(extra: dict[str, str]) -> bytes:
            return proposal.plan_file(settings, extra).encode(table.storage.location)

        return RewriteProposal(
            proposal.figures,
            show=lambda: _describe_plan(table, timeline, proposal, settings),
            encode=encode,
        )

    def kind(self, table: Table, plan: Instant) -> RewriteKind:
        """Implement RewriteService."""
        content = plan_content(table.storage, plan)
        return ClusteringKind.of_plan(content, looks_up=table.config.looks_up)

    def summary(self, done: RewriteResult) -> str:
        """Implement RewriteService."""
        return f"sorted {done.rows} rows in {done.file_groups} file groups"


def _describe_plan(
    table: Table, timeline: Timeline, proposal: Proposal, settings: ClusteringSettings
) -> ServicePlan:
    columns = ", ".join(settings.order.columns)
    return ServicePlan(
        service=SERVICE,
        summary=f"sort {len(proposal.chosen)} file groups by {columns} ({settings.order.layout})"
        if proposal.chosen
        else "every file group is sorted that way already, or pending",
        items=tuple(
            PlanItem(
                what="/".join(part for part in candidate.slice.key if part),
                effect="rewrite",
                bytes=candidate.bytes,
                detail=f"{len(candidate.slice.log_files)} logs",
            )
            for candidate in proposal.chosen
        ),
        blockers=tuple(_find_blockers(table, timeline, settings)),
        figures=proposal.figures,
    )


def _find_blockers(table: Table, timeline: Timeline, settings: ClusteringSettings) -> list[str]:
    blockers = [] if table.write_refusal is None else [table.write_refusal]
    if not settings.order.columns:
        return [*blockers, f"name the columns to sort by: {SORT_COLUMNS_KEY}"]
    schema = load_schema(table, timeline)
    try:
        if schema is not None:
            check_order(settings.order, schema.arrow)
    except InvalidInput as error:
        blockers.append(str(error))
    return blockers
