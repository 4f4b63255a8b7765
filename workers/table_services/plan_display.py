"""The display of pending plans that rewrite file groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from workers.clock import InstantTime
from workers.errors import NotFound, ServiceRefused
from workers.options.write_options import WriteOptions
from workers.table.table import Table
from workers.table_services.service import PlanItem, ServiceOutcome, ServicePlan, ServiceRequest
from workers.table_services.slices import sum_file_sizes
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import OPERATION_KEY
from workers.timeline.pending_plans import parse_planned_slices, plan_content
from workers.timeline.timeline import Timeline


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
