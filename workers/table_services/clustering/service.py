"""The service `clustering`: plan, schedule, carry out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.errors import InvalidInput
from workers.options.service_keys import SORT_COLUMNS_KEY
from workers.options.write_options import WriteOptions
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.table.schema_history import current_schema
from workers.table.table import Table
from workers.table_services import execution
from workers.table_services.clustering.kind import SERVICE, ClusteringKind
from workers.table_services.clustering.planning import Proposal, propose
from workers.table_services.clustering.settings import (
    ClusteringSettings,
    clustering_settings,
)
from workers.table_services.rewrite_execution import RunnerMaker, carry_out, local_runner
from workers.table_services.rewrite_service import run_rewrite
from workers.table_services.row_order import check_order
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.table_services.showing import operation_extra, pending_plan, shown_pending
from workers.timeline.instant import Action, Instant
from workers.timeline.pending_plans import plan_content
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class ClusteringService:
    """The service `clustering`; `make_runner` says where file groups are rewritten."""

    make_runner: RunnerMaker = local_runner

    @property
    def name(self) -> str:
        """See Service."""
        return SERVICE

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """The pending plan when there is one, else what would be scheduled now."""
        settings = clustering_settings(parameters)
        timeline = table.timeline()
        pending = None if settings.is_schedule_only else _pending(timeline, settings)
        proposal = propose(table, timeline, settings)
        if pending is not None:
            return shown_pending(
                table, pending, service=SERVICE, effect="rewrite", figures=proposal.figures
            )
        return _shown(table, timeline, proposal, settings)

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
        settings = clustering_settings(request.parameters)
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
        settings: ClusteringSettings,
        on_progress: Progress | None,
    ) -> ServiceOutcome:
        done = carry_out(
            table,
            options,
            pending,
            ClusteringKind.of_plan(
                plan_content(table.storage, pending), looks_up=table.config.looks_up
            ),
            make_runner=self.make_runner,
            threads=settings.threads,
            on_progress=on_progress,
        )
        summary = f"sorted {done.rows} rows in {done.file_groups} file groups"
        return ServiceOutcome(
            SERVICE, done.instant.requested_at, summary, done.figures, done.warnings
        )


def _pending(timeline: Timeline, settings: ClusteringSettings) -> Instant | None:
    return pending_plan(timeline, (Action.CLUSTERING,), settings.instant, service=SERVICE)


def _scheduled(
    table: Table, request: ServiceRequest, options: WriteOptions, settings: ClusteringSettings
) -> Instant | None:
    def make_plan(timeline: Timeline, _: str) -> bytes | None:
        proposal = propose(table, timeline, settings)
        _shown(table, timeline, proposal, settings).check(request)
        if not proposal.chosen:
            return None
        plan = proposal.plan_file(settings, operation_extra(request, options))
        return plan.encode(table.storage.location)

    return execution.schedule(table, options, Action.CLUSTERING, make_plan)


def _shown(
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
                what="/".join(part for part in one.slice.key if part),
                effect="rewrite",
                bytes=one.bytes,
                detail=f"{len(one.slice.log_files)} logs",
            )
            for one in proposal.chosen
        ),
        blockers=tuple(_blockers(table, timeline, settings)),
        figures=proposal.figures,
    )


def _blockers(table: Table, timeline: Timeline, settings: ClusteringSettings) -> list[str]:
    blockers = [] if table.write_refusal is None else [table.write_refusal]
    if not settings.order.columns:
        return [*blockers, f"name the columns to sort by: {SORT_COLUMNS_KEY}"]
    schema = current_schema(table, timeline)
    try:
        if schema is not None:
            check_order(settings.order, schema.arrow)
    except InvalidInput as error:
        blockers.append(str(error))
    return blockers
