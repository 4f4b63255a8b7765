"""Running a table service: the plan to look at, and the request that carries its hash.

Generic over `workers.table_services.registry`: a service that the engine gains is here at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError

from controlplane.errors import InvalidRequest, NotAllowedNow, StorageUnavailable
from controlplane.mirror.storage import engine_table
from controlplane.operations.ask import Ask, Request, Requester, Wanted
from controlplane.operations.confirmation import Confirmation
from controlplane.operations.descriptions.services import PARAMETER_CHARS_MAX
from controlplane.operations.kinds.kind import Cancelling, Kind
from controlplane.operations.load_defaults import keep_parameters, with_kept_parameters
from controlplane.operations.models import Operation
from controlplane.operations.outcomes import Outcome, without_effect
from controlplane.operations.permissions import (
    is_destructive,
    permission_of,
    schedulable_services,
)
from controlplane.operations.planned_checks import SERVICE_TITLES, service_checks
from controlplane.operations.queueing import queue
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.service_plan_views import ServicePlanView, name_upload, view_plan
from controlplane.operations.source_places import check_source_files, to_stored_file
from controlplane.operations.states import OPEN, OperationState
from controlplane.operations.storage_settling import settled_by_storage
from controlplane.operations.table_service_proof import service_proof
from controlplane.tables.access import Caller, may
from controlplane.tables.models import Table
from controlplane.tables.row_access import row_access, whole_access
from workers.errors import InvalidInput, LakehouseError, NotFound, StorageFailed
from workers.jobs import ServiceJob
from workers.table_services import registry

PARAMETERS_MAX = 50
SAVEPOINT = "savepoint"
SCHEDULE = "schedule"
"""Who asks for what beat starts."""


def plan_service(
    table: Table,
    service: str,
    parameters: Mapping[str, str],
    by: User | None,
    *,
    is_shell: bool = False,
    reader: Caller | None = None,
) -> ServicePlanView:
    """What the service would do, now. Changes nothing. A shell may name any file of this machine
    outside of tables. `reader` gets sample rows as far as they may read them; a shell gets all.

    Raises InvalidRequest (unknown service or parameter), NotAllowedNow, StorageUnavailable,
    PermissionDenied.
    """
    _check_role(service, by, table)
    _check_parameters(parameters)
    check_source_files(parameters, by, is_shell=is_shell)
    complete = with_kept_parameters(table, service, parameters)
    stored = complete if is_shell else to_stored_file(complete)
    try:
        plan = registry.get_service(service).plan(engine_table(table), stored)
    except StorageFailed as error:
        raise StorageUnavailable(error.message, **error.values) from error
    except (InvalidInput, NotFound) as error:
        raise InvalidRequest(error.message, **error.values) from error
    except LakehouseError as error:
        raise NotAllowedNow(error.message, **error.values) from error
    access = whole_access("", table.slug) if is_shell else None
    if reader is not None:
        access = row_access(reader, table)
    view = view_plan(plan, access)
    return view if is_shell else name_upload(view, parameters, stored)


@dataclass(frozen=True, slots=True)
class ServiceAsk(Ask[ServicePlanView]):
    """Run one table service."""

    service: str = field()  # Without it the property of `Ask` was its default.
    parameters: Mapping[str, str]
    is_shell: bool = False
    request_name = "ServiceAsk"
    busy = "this service is under way"

    @property
    def kind(self) -> Kind:
        return KIND

    @property
    def confirmation(self) -> Confirmation:
        """What takes nothing away is not bound to its plan: on a table that is written to all the
        time no plan of a compaction stays the newest.
        """
        is_named = is_destructive(self.service)
        return Confirmation.NAME_AND_REASON if is_named else Confirmation.NONE

    @property
    def body(self) -> dict[str, Any]:
        return {"service": self.service, "parameters": dict(self.parameters)}

    def plan(self) -> ServicePlanView:
        return self.plan_for(None)

    def plan_for(self, reader: Caller | None) -> ServicePlanView:
        """Return the plan with sample rows as far as the reader may read them. Raises what
        `plan_service` raises.
        """
        return plan_service(
            self.table,
            self.service,
            self.parameters,
            None,
            is_shell=self.is_shell,
            reader=reader,
        )

    def wanted(self, request: Request, plan: ServicePlanView) -> Wanted:
        parameters = with_kept_parameters(self.table, self.service, self.parameters)
        if self.service == SAVEPOINT and plan.instant:
            parameters["instant"] = plan.instant  # The newest is another one later.
        return self._wanted(request, parameters, plan.plan)

    def unplanned(self, request: Request) -> Wanted:
        """It makes its plan when it runs."""
        return self._wanted(request, dict(self.parameters), {})

    def _wanted(
        self, request: Request, parameters: dict[str, str], plan: Mapping[str, Any]
    ) -> Wanted:
        stored = parameters if self.is_shell else to_stored_file(parameters)
        job = ServiceJob(
            operation_id=str(request.operation_id),
            table=self.table.location,
            service=self.service,
            parameters=stored,
            plan_hash=request.plan_hash or None,
            reason=request.reason,
            by=request.by.name,
            run_dir=run_dir(request.operation_id),
            report_url=settings.SLUICE_REPORT_URL,
        )
        return Wanted(
            job=job,
            what=f"service.{self.service}",
            plan=plan,
            columns={
                "service": self.service,
                "instant": plan.get("instant") or "",
                "progress_total": plan.get("item_count", 0),
                "progress_unit": "items",
            },
            parameters={"service": self.service},
            details={"parameters": parameters, **_describe_effect(plan)},
        )


def _describe_effect(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the audit keeps of a plan. It has no values of rows."""
    if not plan:
        return {}
    return {"effect": {"summary": plan["summary"], "figures": dict(plan["figures"])}}


def do_request_service(
    table: Table,
    service: str,
    parameters: Mapping[str, str],
    plan_hash: str,
    reason: str,
    typed_name: str,
    by: User,
    idempotency_key: str | None = None,
) -> Operation:
    """Queue the run that was shown as `plan_hash`. `typed_name`, `reason` and even `plan_hash` may
    be empty for what takes nothing away.

    Raises what `do_request` and `plan_service` raise.
    """
    given = Given(
        reason=reason, typed_name=typed_name, plan_hash=plan_hash, idempotency_key=idempotency_key
    )
    ask = ServiceAsk(table, service, parameters)
    operation = do_request(ask, Requester.person(by), given)
    keep_parameters(table, service, parameters)
    return operation


def do_schedule_service(
    table: Table, service: str, parameters: Mapping[str, str]
) -> Operation | None:
    """Queue a run that nobody asked for; None while one of its kind is open, and for a table that
    was unregistered meanwhile.
    """
    if Operation.objects.filter(table=table, service=service, state__in=sorted(OPEN)).exists():
        return None
    assert not is_destructive(service), service
    ask = ServiceAsk(table, service, parameters)
    request = Request(by=Requester(None, SCHEDULE), reason="scheduled")
    try:
        return queue(ask, ask.unplanned(request), request)
    except (IntegrityError, NotAllowedNow):
        return None


def _check_role(service: str, by: User | None, table: Table) -> None:
    permission = permission_of(service)
    if by is not None and not may(by, permission, table):
        raise PermissionDenied(f"this requires the {permission.role} role")


def _check_parameters(parameters: Mapping[str, str]) -> None:
    if len(parameters) > PARAMETERS_MAX:
        raise InvalidRequest("too many parameters", most=PARAMETERS_MAX)
    for name, value in parameters.items():
        if not isinstance(value, str) or len(value) > PARAMETER_CHARS_MAX or "\x00" in value:
            raise InvalidRequest("a parameter must be a text that is not too long", name=name[:80])


def _confirm(operation: Operation, claimed: OperationState) -> Outcome | None:
    proof = service_proof(operation)
    instant = proof.instant or ""
    if claimed is not OperationState.SUCCEEDED:
        is_done = proof.is_proved and proof.is_on_timeline is True
        done = Outcome(OperationState.SUCCEEDED, "done, as storage shows", instant)
        return done if is_done else without_effect(operation, claimed)
    is_shown = proof.is_proved and (proof.is_on_timeline or proof.items_checked)
    return Outcome(claimed, "", instant) if is_shown or _has_nothing_to_do(operation) else None


def _has_nothing_to_do(operation: Operation) -> bool:
    """Somebody else was first, or the schedule came for nothing."""
    job = operation.parameters.get("job", {})
    service = registry.get_service(operation.service)
    plan = service.plan(engine_table(operation.table), dict(job.get("parameters", {})))
    return plan.is_done or (plan.is_empty and not plan.blockers)


def _again(operation: Operation, changed: Mapping[str, Any]) -> ServiceAsk:
    """Raises InvalidRequest for a parameter that is no text."""
    _check_texts(changed)
    parameters = {**operation.parameters["job"]["parameters"], **changed}
    return ServiceAsk(operation.table, operation.service, parameters)


def _check_texts(parameters: Mapping[str, Any]) -> None:
    if wrong := sorted(name for name, text in parameters.items() if not isinstance(text, str)):
        raise InvalidRequest("parameters of a service must be texts", wrong=wrong)


def _scheduled(table: Table, service: str, parameters: Mapping[str, Any]) -> ServiceAsk:
    """Raises InvalidRequest for what takes committed data away, and for a parameter that is no
    text.
    """
    if service not in schedulable_services():
        raise InvalidRequest(
            "this service cannot be scheduled", service=service[:32], known=schedulable_services()
        )
    _check_texts(parameters)
    return ServiceAsk(table, service, parameters)


KIND = Kind(
    name="service",
    job=ServiceJob,
    permission=lambda subject: permission_of(subject.service),
    confirm=_confirm,
    titles=SERVICE_TITLES,
    checks=service_checks,
    may_run_unasked=lambda operation: not is_destructive(operation.service),
    settle=settled_by_storage,
    cancelling=Cancelling.BETWEEN_STEPS,
    is_carried_on=lambda service: service in registry.FINISHED_ONCE_BEGUN,
    has_trace=False,
    is_done_as_a_whole=True,  # A savepoint has no step to tell of.
    is_planned=True,
    again=_again,
    scheduled=_scheduled,
    page="services",
)
