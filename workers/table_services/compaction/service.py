"""The service `compaction`: plan, schedule, carry out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.options.write_options import WriteOptions
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.table.table import Table
from workers.table_services import execution
from workers.table_services.compaction.choice import Candidate
from workers.table_services.compaction.kind import SERVICE, CompactionKind
from workers.table_services.compaction.planning import Backlog, Proposal, propose
from workers.table_services.compaction.settings import CompactionSettings, compaction_settings
from workers.table_services.rewrite_execution import RunnerMaker, carry_out, local_runner
from workers.table_services.rewrite_service import run_rewrite
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.table_services.showing import operation_extra, pending_plan, shown_pending
from workers.timeline.instant import Action, Instant
from workers.timeline.timeline import Timeline

_NO_LOGS = "a COPY_ON_WRITE table has no logs to compact"


@dataclass(frozen=True, slots=True)
class CompactionService:
    """The service `compaction`; `make_runner` says where file groups are rewritten."""

    make_runner: RunnerMaker = local_runner

    @property
    def name(self) -> str:
        """See Service."""
        return SERVICE

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """The pending plan when there is one, else what would be scheduled now."""
        settings = compaction_settings(parameters)
        timeline = table.timeline()
        pending = None if settings.is_schedule_only else _pending(timeline, settings)
        if pending is not None:
            backlog = propose(table, timeline, settings).backlog
            return shown_pending(
                table, pending, service=SERVICE, effect="merge", figures=backlog.figures
            )
        return _shown(table, propose(table, timeline, settings))

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Carry out the pending plan, else schedule one and carry it out.

        Raises PlanOvertaken, ServiceBusy, and as `Service.run`.
        """
        table.check_writable()
        settings = compaction_settings(request.parameters)
        roll_back_dead_writers(table, options)
        pending = None if settings.is_schedule_only else _pending(table.timeline(), settings)
        if pending is not None:
            self.plan(table, request.parameters).check(request)
        return run_rewrite(
            SERVICE,
            pending,
            named_plan=settings.instant,
            is_schedule_only=settings.is_schedule_only,
            schedule=lambda: _scheduled(table, request, options, settings),
            execute=lambda plan: self._carried_out(table, plan, options, settings, on_progress),
        )

    def _carried_out(
        self,
        table: Table,
        pending: Instant,
        options: WriteOptions,
        settings: CompactionSettings,
        on_progress: Progress | None,
    ) -> ServiceOutcome:
        done = carry_out(
            table,
            options,
            pending,
            CompactionKind(),
            make_runner=self.make_runner,
            threads=settings.threads,
            on_progress=on_progress,
        )
        summary = f"merged {done.log_files} logs into {done.file_groups} file groups"
        return ServiceOutcome(
            SERVICE, done.instant.requested_at, summary, done.figures, done.warnings
        )


def _pending(timeline: Timeline, settings: CompactionSettings) -> Instant | None:
    return pending_plan(timeline, (Action.COMPACTION,), settings.instant, service=SERVICE)


def _scheduled(
    table: Table, request: ServiceRequest, options: WriteOptions, settings: CompactionSettings
) -> Instant | None:
    def make_plan(timeline: Timeline, _: str) -> bytes | None:
        proposal = propose(table, timeline, settings)
        _shown(table, proposal).check(request)
        extra = operation_extra(request, options)
        return proposal.plan_file(extra).encode() if proposal.chosen else None

    return execution.schedule(table, options, Action.COMPACTION, make_plan)


def _shown(table: Table, proposal: Proposal) -> ServicePlan:
    blockers = [] if table.write_refusal is None else [table.write_refusal]
    if not table.config.is_merge_on_read:
        blockers.append(_NO_LOGS)
    logs = sum(len(one.slice.log_files) for one in proposal.chosen)
    return ServicePlan(
        service=SERVICE,
        summary=f"merge {logs} logs into {len(proposal.chosen)} file groups"
        if proposal.chosen
        else _why_nothing(proposal.backlog),
        items=tuple(_item(one) for one in proposal.chosen),
        blockers=tuple(blockers),
        figures=proposal.backlog.figures,
    )


def _why_nothing(backlog: Backlog) -> str:
    if backlog.file_groups == 0:
        return "there are no logs to merge"
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
