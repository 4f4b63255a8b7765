"""One run of a service that rewrites file groups: its pending plan first, else a new one."""

from __future__ import annotations

from collections.abc import Callable

from workers.clock import InstantTime
from workers.errors import InstantRolledBack, PlanEmpty
from workers.table_services.service import ServiceOutcome
from workers.table_services.showing import nothing_to_do
from workers.timeline.instant import Instant


def run_rewrite(
    service: str,
    pending: Instant | None,
    *,
    named_plan: InstantTime | None,
    is_schedule_only: bool,
    schedule: Callable[[], Instant | None],
    execute: Callable[[Instant], ServiceOutcome],
) -> ServiceOutcome:
    """`named_plan` is the instant of the plan that the caller named, if any.

    Raises what `schedule` and `execute` raise.
    """
    if pending is not None:
        try:
            return execute(pending)
        except (InstantRolledBack, PlanEmpty):
            # Its last executor died while it was deciding, or its planner while planning (bug A8):
            # the plan is gone.
            if named_plan is not None:
                raise
    planned = schedule()
    if planned is None:
        return nothing_to_do(service)
    if is_schedule_only:
        return ServiceOutcome(service, planned.requested_at, "scheduled")
    return execute(planned)
