"""The service `compaction`: which slices are merged, and how that is shown. The file group stays,
its slice gets a new base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.schema.table_schema import TableSchema
from workers.table.table import Table
from workers.table_services.compaction.proposal import Backlog, Candidate, Proposal, propose
from workers.table_services.compaction.settings import CompactionSettings, parse_compaction_settings
from workers.table_services.rewrite_execution import (
    RewriteKind,
    RewriteResult,
)
from workers.table_services.rewrite_service import RewriteProposal, RewriteService
from workers.table_services.row_order import RowOrder
from workers.table_services.service import (
    PlanItem,
    ServicePlan,
)
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import CommitMetadata, WriteStat, commit_metadata
from workers.timeline.service_plans import PlannedSlice
from workers.timeline.timeline import Timeline

SERVICE = "compaction"
_NO_LOGS = "a COPY_ON_WRITE table has no logs to compact"


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


@dataclass(frozen=True, slots=True)
class CompactionService(RewriteService[CompactionSettings]):
    """Merges the logs of file slices into new base files."""

    SERVICE = SERVICE
    ACTION = Action.COMPACTION
    EFFECT = "merge"

    def settings(self, parameters: Mapping[str, str]) -> CompactionSettings:
        """Implement RewriteService."""
        return parse_compaction_settings(parameters)

    def make_proposal(
        self, table: Table, timeline: Timeline, settings: CompactionSettings
    ) -> RewriteProposal:
        """Implement RewriteService."""
        proposal = propose(table, timeline, settings)
        return RewriteProposal(
            proposal.backlog.figures,
            show=lambda: _describe_plan(table, proposal),
            encode=lambda extra: proposal.plan_file(extra).encode(),
        )

    def kind(self, table: Table, plan: Instant) -> RewriteKind:
        """Implement RewriteService."""
        return CompactionKind()

    def summary(self, done: RewriteResult) -> str:
        """Implement RewriteService."""
        return f"merged {done.log_files} logs into {done.file_groups} file groups"


def _describe_plan(table: Table, proposal: Proposal) -> ServicePlan:
    blockers = [] if table.write_refusal is None else [table.write_refusal]
    if not table.config.is_merge_on_read:
        blockers.append(_NO_LOGS)
    logs = sum(len(candidate.slice.log_files) for candidate in proposal.chosen)
    return ServicePlan(
        service=SERVICE,
        summary=f"merge {logs} logs into {len(proposal.chosen)} file groups"
        if proposal.chosen
        else _why_nothing(proposal.backlog),
        items=tuple(_item(candidate) for candidate in proposal.chosen),
        blockers=tuple(blockers),
        figures=proposal.backlog.figures,
    )


def _why_nothing(backlog: Backlog) -> str:
    if backlog.file_groups == 0:
        return "no logs to merge"
    if backlog.pending_groups == backlog.file_groups:
        return "every file group with logs is in a pending plan"
    return f"nothing is due: {backlog.delta_commits} delta commits since the last compaction"


def _item(candidate: Candidate) -> PlanItem:
    return PlanItem(
        what="/".join(part for part in candidate.slice.key if part),
        effect="merge",
        bytes=candidate.bytes,
        detail=f"{len(candidate.slice.log_files)} logs of {candidate.log_bytes} bytes",
    )
