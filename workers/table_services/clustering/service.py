"""The service `clustering`: which slices are sorted, by what, and how that is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.errors import InvalidInput
from workers.options.service_keys import SORT_COLUMNS_KEY
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table_services.clustering.kind import SERVICE, ClusteringKind
from workers.table_services.clustering.proposal import Proposal, propose
from workers.table_services.clustering.settings import (
    ClusteringSettings,
    parse_clustering_settings,
)
from workers.table_services.rewrite_execution import (
    RewriteKind,
    RewriteResult,
)
from workers.table_services.rewrite_service import RewriteProposal, RewriteService
from workers.table_services.row_order import check_order
from workers.table_services.service import (
    PlanItem,
    ServicePlan,
)
from workers.timeline.instant import Action, Instant
from workers.timeline.pending_plans import plan_content
from workers.timeline.timeline import Timeline


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
