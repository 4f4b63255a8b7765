"""The service `compaction`: which slices are merged, and how that is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.table.table import Table
from workers.table_services.compaction.kind import SERVICE, CompactionKind
from workers.table_services.compaction.proposal import Backlog, Candidate, Proposal, propose
from workers.table_services.compaction.settings import CompactionSettings, parse_compaction_settings
from workers.table_services.rewrite_execution import (
    RewriteKind,
    RewriteResult,
)
from workers.table_services.rewrite_service import RewriteProposal, RewriteService
from workers.table_services.service import (
    PlanItem,
    ServicePlan,
)
from workers.timeline.instant import Action, Instant
from workers.timeline.timeline import Timeline

_NO_LOGS = "a COPY_ON_WRITE table has no logs to compact"


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
