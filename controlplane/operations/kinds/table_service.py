"""Running a table service: the plan to look at, and the request that carries its hash.

Generic over `workers.services.registry`: a service that the engine gains is here at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError

from controlplane.errors import InvalidRequest, NotAllowedNow, PlanVoid, StorageUnavailable
from controlplane.mirror.storage import engine_table
from controlplane.operations.confirmation import check_words
from controlplane.operations.models import Operation
from controlplane.operations.permissions import is_destructive, permission_of
from controlplane.operations.queueing import Wanted, known_request, queue, queue_once
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OPEN, OperationKind
from controlplane.tables.access import may
from controlplane.tables.locations import checked_source
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import InvalidInput, LakehouseError, NotFound, StorageFailed
from workers.jobs import ServiceJob
from workers.services import registry
from workers.services.given_rows import PATH_KEY
from workers.services.service import ServicePlan

STORED_ITEMS_MAX = 2000
PARAMETERS_MAX = 50
PARAMETER_CHARS_MAX = 4000
SAVEPOINT = "savepoint"
SCHEDULE = "schedule"
"""Who asks for what beat starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItemRow:
    what: str
    effect: str
    bytes: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlanView:
    """What a service would do, exactly."""

    service: str
    summary: str
    instant: InstantTime | None
    """The pending instant that running carries out."""
    items: list[PlanItemRow]
    bytes_total: int
    figures: Mapping[str, int]
    blockers: list[str]
    """Why it cannot run now; empty when it can."""
    warnings: list[str]
    is_empty: bool
    """There is nothing to do."""
    is_destructive: bool
    plan_hash: str

    @property
    def is_executable(self) -> bool:
        return not self.blockers and not self.is_empty

    @property
    def plan(self) -> dict[str, Any]:
        """The same as JSON; a very long list of items is cut there and says so."""
        return {
            "service": self.service,
            "summary": self.summary,
            "instant": self.instant,
            "items": [
                {
                    "what": item.what,
                    "effect": item.effect,
                    "bytes": item.bytes,
                    "detail": item.detail,
                }
                for item in self.items[:STORED_ITEMS_MAX]
            ],
            "item_count": len(self.items),
            "bytes_total": self.bytes_total,
            "figures": dict(self.figures),
            "blockers": self.blockers,
            "warnings": self.warnings,
            "plan_hash": self.plan_hash,
        }


def plan_service(
    table: Table,
    service: str,
    parameters: Mapping[str, str],
    by: User | None,
    *,
    is_shell: bool = False,
) -> ServicePlanView:
    """What the service would do, now. Changes nothing. Whoever has the shell has every file of this
    machine, so a file of theirs may lie anywhere.

    Raises InvalidRequest (unknown service or parameter), NotAllowedNow, StorageUnavailable,
    PermissionDenied.
    """
    _check_role(service, by)
    _check_parameters(parameters)
    if not is_shell and (path := parameters.get(PATH_KEY, "").strip()):
        checked_source(path)
    try:
        plan = registry.service(service).plan(engine_table(table), parameters)
    except StorageFailed as error:
        raise StorageUnavailable(error.message, **error.values) from error
    except (InvalidInput, NotFound) as error:
        raise InvalidRequest(error.message, **error.values) from error
    except LakehouseError as error:
        raise NotAllowedNow(error.message, **error.values) from error
    return _view(plan)


def request_service(
    table: Table,
    service: str,
    parameters: Mapping[str, str],
    plan_hash: str,
    reason: str,
    typed_name: str,
    by: User,
    idempotency_key: str | None = None,
) -> Operation:
    """Queue the run that was shown as `plan_hash`. The same key by the same person has one effect.

    `typed_name`, `reason` and even `plan_hash` may be empty for what takes nothing away: on a table
    that is written to all the time no plan of a compaction stays the newest.

    Raises what `plan_service` raises, InvalidRequest (name, reason), NotAllowedNow (blockers,
    nothing to do, one already runs), PlanVoid (the table moved on).
    """
    _check_role(service, by)
    same = {"table_id": table.pk, "service": service, "plan_hash": plan_hash}
    if known := known_request(by, idempotency_key, same):
        return known
    check_words(table, reason, typed_name, are_needed=is_destructive(service))
    view = plan_service(table, service, parameters, by)
    is_bound = bool(plan_hash) or is_destructive(service)
    if is_bound and view.plan_hash != plan_hash:
        raise PlanVoid("the table changed since the plan was shown", service=service)
    if view.blockers:
        raise NotAllowedNow("this service is blocked", service=service, blockers=view.blockers)
    if view.is_empty:
        raise NotAllowedNow("there is nothing to do", service=service)
    if service == SAVEPOINT and view.instant:
        parameters = {**parameters, "instant": view.instant}  # The newest is another one later.
    wanted = _wanted(
        table, service, parameters, view.plan, plan_hash, reason.strip(), by, idempotency_key
    )
    return queue_once(wanted, same, busy="this service is under way")


def schedule_service(table: Table, service: str, parameters: Mapping[str, str]) -> Operation | None:
    """Queue a run that nobody asked for; None while one of its kind is open. It makes its plan when
    it runs.
    """
    if Operation.objects.filter(table=table, service=service, state__in=sorted(OPEN)).exists():
        return None
    assert not is_destructive(service), service
    try:
        return queue(_wanted(table, service, parameters, {}, "", "scheduled", None, None))
    except IntegrityError:
        return None


def _wanted(
    table: Table,
    service: str,
    parameters: Mapping[str, str],
    plan: Mapping[str, Any],
    plan_hash: str,
    reason: str,
    by: User | None,
    idempotency_key: str | None,
) -> Wanted:
    operation_id = uuid.uuid4()
    who = by.get_username() if by else SCHEDULE
    job = ServiceJob(
        operation_id=str(operation_id),
        table=table.location,
        service=service,
        parameters=dict(parameters),
        plan_hash=plan_hash or None,
        reason=reason,
        by=who,
        run_dir=run_dir(operation_id),
        report_url=settings.SLUICE_REPORT_URL,
    )
    return Wanted(
        table=table,
        kind=OperationKind.SERVICE,
        job=job,
        by=by,
        who=who,
        what=f"service.{service}",
        reason=reason,
        plan=plan,
        plan_hash=plan_hash,
        idempotency_key=idempotency_key,
        columns={
            "service": service,
            "instant": plan.get("instant") or "",
            "progress_total": plan.get("item_count", 0),
            "progress_unit": "items",
        },
        parameters={"service": service},
        details={"parameters": dict(parameters)},
    )


def _view(plan: ServicePlan) -> ServicePlanView:
    return ServicePlanView(
        service=plan.service,
        summary=plan.summary,
        instant=plan.instant,
        items=[
            PlanItemRow(what=item.what, effect=item.effect, bytes=item.bytes, detail=item.detail)
            for item in plan.items
        ],
        bytes_total=plan.bytes_total,
        figures=dict(plan.figures),
        blockers=list(plan.blockers),
        warnings=list(plan.warnings),
        is_empty=plan.is_empty,
        is_destructive=is_destructive(plan.service),
        plan_hash=plan.plan_hash,
    )


def _check_role(service: str, by: User | None) -> None:
    permission = permission_of(service)
    if by is not None and not may(by, permission):
        raise PermissionDenied(f"this needs the role {permission.role}")


def _check_parameters(parameters: Mapping[str, str]) -> None:
    if len(parameters) > PARAMETERS_MAX:
        raise InvalidRequest("too many parameters", most=PARAMETERS_MAX)
    for name, value in parameters.items():
        if not isinstance(value, str) or len(value) > PARAMETER_CHARS_MAX or "\x00" in value:
            raise InvalidRequest("a parameter is a text of sensible length", name=name[:80])
