"""The skeleton of the services that rewrite file groups: find a pending plan, else make one, and
carry it out. Compaction and clustering implement the choice of file groups, and the summary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from workers.clock import InstantTime
from workers.errors import InstantRolledBack, NotFound, PlanEmpty, ServiceRefused
from workers.options.write_options import WriteOptions
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.table.table import Table
from workers.table_services import execution
from workers.table_services.rewrite_execution import (
    RewriteKind,
    RewriteResult,
    RunnerMaker,
    carry_out,
    make_local_runner,
)
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.table_services.slices import sum_file_sizes
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import OPERATION_KEY
from workers.timeline.pending_plans import parse_planned_slices, plan_content
from workers.timeline.timeline import Timeline


class RewriteSettings(Protocol):
    """The settings that all services of this kind have."""

    @property
    def is_schedule_only(self) -> bool:
        """A plan is made and left for others, whatever is pending."""

    @property
    def instant(self) -> InstantTime | None:
        """The plan that the caller named; None for the oldest one."""

    @property
    def threads(self) -> int | None:
        """File groups at once; None leaves it to the runner."""


S = TypeVar("S", bound=RewriteSettings)


@dataclass(frozen=True, slots=True)
class RewriteProposal:
    """What would be scheduled now."""

    figures: Mapping[str, int]
    """What waits, pending plans included."""
    show: Callable[[], ServicePlan]
    """The plan as people are shown it. Clustering reads the schema for that."""
    encode: Callable[[dict[str, str]], bytes]
    """The plan file, with these entries of the operation in it. Only where there are items."""


@dataclass(frozen=True, slots=True)
class RewriteService(ABC, Generic[S]):
    """A service that rewrites file groups, with the runners of `make_runner`."""

    SERVICE: ClassVar[str]
    ACTION: ClassVar[Action]
    """The action of its plans while they are pending."""
    EFFECT: ClassVar[str]
    """What is done to a file group, for people: `merge`."""

    make_runner: RunnerMaker = make_local_runner

    @abstractmethod
    def settings(self, parameters: Mapping[str, str]) -> S:
        """Parse the settings from the parameters. Raises InvalidInput for unknown parameters."""

    @abstractmethod
    def make_proposal(self, table: Table, timeline: Timeline, settings: S) -> RewriteProposal:
        """Choose what to rewrite of the table as `timeline` shows it. Changes nothing."""

    @abstractmethod
    def kind(self, table: Table, plan: Instant) -> RewriteKind:
        """Return how the file groups of this plan are rewritten. Raises MalformedTable."""

    @abstractmethod
    def summary(self, done: RewriteResult) -> str:
        """Return one sentence about the result, for users."""

    @property
    def name(self) -> str:
        """Implement Service."""
        return self.SERVICE

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Return the pending plan when there is one, else what would be scheduled now."""
        settings = self.settings(parameters)
        timeline = table.timeline()
        pending = self._pending(timeline, settings)
        proposed = self.make_proposal(table, timeline, settings)
        if pending is None:
            return proposed.show()
        return describe_pending_plan(
            table, pending, service=self.SERVICE, effect=self.EFFECT, figures=proposed.figures
        )

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
        settings = self.settings(request.parameters)
        roll_back_dead_writers(table, options)
        pending = self._pending(table.timeline(), settings)
        if pending is not None:
            self.plan(table, request.parameters).check(request)
            try:
                return self._carry_out(table, pending, options, settings, on_progress)
            except (InstantRolledBack, PlanEmpty):
                # Its last executor died while it was deciding, or its planner while planning (bug
                # A8): the plan is gone.
                if settings.instant is not None:
                    raise
        planned = self._schedule(table, request, options, settings)
        if planned is None:
            return build_empty_outcome(self.SERVICE)
        if settings.is_schedule_only:
            return ServiceOutcome(self.SERVICE, planned.requested_at, "scheduled")
        return self._carry_out(table, planned, options, settings, on_progress)

    def _pending(self, timeline: Timeline, settings: S) -> Instant | None:
        if settings.is_schedule_only:
            return None
        return find_pending_plan(timeline, (self.ACTION,), settings.instant, service=self.SERVICE)

    def _schedule(
        self, table: Table, request: ServiceRequest, options: WriteOptions, settings: S
    ) -> Instant | None:
        def make_plan(timeline: Timeline, _: str) -> bytes | None:
            proposed = self.make_proposal(table, timeline, settings)
            service_plan = proposed.show()
            service_plan.check(request)
            if service_plan.is_empty:
                return None
            return proposed.encode(build_operation_extra(request, options))

        return execution.schedule(table, options, self.ACTION, make_plan)

    def _carry_out(
        self,
        table: Table,
        plan: Instant,
        options: WriteOptions,
        settings: S,
        on_progress: Progress | None,
    ) -> ServiceOutcome:
        done = carry_out(
            table,
            options,
            plan,
            self.kind(table, plan),
            make_runner=self.make_runner,
            threads=settings.threads,
            on_progress=on_progress,
        )
        return ServiceOutcome(
            self.SERVICE, done.instant.requested_at, self.summary(done), done.figures, done.warnings
        )


def find_pending_plan(
    timeline: Timeline,
    actions: Collection[Action],
    requested_at: InstantTime | None,
    *,
    service: str,
) -> Instant | None:
    """Return the oldest pending plan, or the requested one. Raises ServiceRefused when that is not
    pending.
    """
    pending = [plan for plan in timeline.pending() if plan.action in actions]
    if requested_at is None:
        return pending[0] if pending else None
    for instant in pending:
        if instant.requested_at == requested_at:
            return instant
    raise ServiceRefused("no such plan is pending", service=service, instant=requested_at)


def describe_pending_plan(
    table: Table, pending: Instant, *, service: str, effect: str, figures: Mapping[str, int]
) -> ServicePlan:
    """Describe a pending plan for users: an item per file group, with its bytes. Missing files are
    warnings. Raises MalformedTable.
    """
    slices = parse_planned_slices(pending.action, plan_content(table.storage, pending))
    items, missing = [], []
    for slice_ in slices:
        try:
            size = sum_file_sizes(table.storage, slice_.files)
        except NotFound as error:
            size = 0
            missing.append(str(error.values.get("path")))
        what = "/".join(part for part in slice_.key if part)
        items.append(PlanItem(what, effect, size, f"{len(slice_.log_files)} logs"))
    return ServicePlan(
        service=service,
        summary=f"carry out the plan of {len(items)} file groups that is pending",
        items=tuple(items),
        instant=pending.requested_at,
        blockers=() if table.write_refusal is None else (table.write_refusal,),
        warnings=tuple(f"a file that it needs is gone: {path}" for path in missing),
        figures=figures,
    )


def build_operation_extra(request: ServiceRequest, options: WriteOptions) -> dict[str, str]:
    """Return the requester of a plan, as it is stored in the plan."""
    extra = {"sluice.by": request.by}
    if request.reason:
        extra["sluice.reason"] = request.reason
    if options.operation_id:
        extra[OPERATION_KEY] = options.operation_id
    return extra


def build_empty_outcome(service: str) -> ServiceOutcome:
    """Return the outcome of a run that found nothing."""
    return ServiceOutcome(service, None, "there was nothing to do")
