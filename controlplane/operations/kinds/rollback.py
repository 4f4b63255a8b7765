"""Rolling an instant back: the plan to look at, and the request that carries its hash.

The plan is the engine's own; here it becomes plain values. Whoever executes compares the hash
again, in the worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest, NotAllowedNow, StorageUnavailable
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.storage import engine_table
from controlplane.operations.ask import Ask, Request, Requester, Wanted
from controlplane.operations.confirmation import Confirmation
from controlplane.operations.kinds.kind import Kind
from controlplane.operations.models import Operation
from controlplane.operations.outcomes import Outcome, without_effect
from controlplane.operations.planned_checks import ROLLBACK_TITLES, rollback_checks
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OperationState
from controlplane.operations.storage_settling import settled_by_storage
from controlplane.operations.verification import rollback_proof
from controlplane.tables.access import Permission
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import InvalidInput, LakehouseError, NotFound, RollbackRefused, StorageFailed
from workers.jobs import RollbackJob
from workers.recovery import plan as engine

STORED_FILES_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFileRow:
    path: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What a rollback would do, exactly."""

    instant: InstantTime
    action: str
    state: str
    files: list[PlannedFileRow]
    bytes_total: int
    rows: int | None
    """As the mirror knows them; None for a write that is not completed."""
    partitions: list[str]
    blockers: list[str]
    """Why it cannot run now; empty when it can."""
    warnings: list[str]
    plan_hash: str

    @property
    def is_executable(self) -> bool:
        return not self.blockers

    @property
    def is_empty(self) -> bool:
        """An instant without files is undone as well."""
        return False

    @property
    def plan(self) -> dict[str, Any]:
        """The same as JSON; a very long file list is cut there and says so."""
        return {
            "instant": self.instant,
            "action": self.action,
            "state": self.state,
            "files": [
                {"path": file.path, "bytes": file.bytes} for file in self.files[:STORED_FILES_MAX]
            ],
            "file_count": len(self.files),
            "bytes_total": self.bytes_total,
            "rows": self.rows,
            "partitions": self.partitions,
            "blockers": self.blockers,
            "warnings": self.warnings,
            "plan_hash": self.plan_hash,
        }


def plan_rollback(table: Table, instant: InstantTime) -> PlanView:
    """What undoing `instant` would delete, now. Changes nothing.

    Raises InvalidRequest for an instant that is none, StorageUnavailable.
    """
    if not INSTANT_TIME.match(instant):
        raise InvalidRequest("invalid instant time: expected 17 digits", instant=instant[:32])
    try:
        plan = engine.plan_rollback(engine_table(table), instant)
    except StorageFailed as error:
        raise StorageUnavailable(error.message, **error.values) from error
    except RollbackRefused as error:
        raise NotAllowedNow(error.message, **error.values) from error
    except (InvalidInput, NotFound) as error:
        raise InvalidRequest(error.message, **error.values) from error
    except LakehouseError as error:
        raise NotAllowedNow(error.message, **error.values) from error
    return PlanView(
        instant=plan.target,
        action=str(plan.action),
        state=str(plan.state),
        files=[PlannedFileRow(path=file.path, bytes=file.bytes) for file in plan.files],
        bytes_total=plan.bytes_total,
        rows=InstantRecord.objects.filter(table=table, requested_at=instant)
        .values_list("rows", flat=True)
        .first(),
        partitions=sorted(plan.partitions),
        blockers=list(plan.blockers),
        warnings=list(plan.warnings),
        plan_hash=plan.plan_hash,
    )


@dataclass(frozen=True, slots=True)
class RollbackAsk(Ask[PlanView]):
    """Undo one instant exactly as its plan says."""

    instant: InstantTime
    confirmation = Confirmation.NAME_AND_REASON
    request_name = "RollbackAsk"
    busy = "a rollback of this instant is under way"

    @property
    def kind(self) -> Kind:
        return KIND

    @property
    def body(self) -> dict[str, Any]:
        return {"instant": self.instant}

    def plan(self) -> PlanView:
        return plan_rollback(self.table, self.instant)

    def wanted(self, request: Request, plan: PlanView) -> Wanted:
        return Wanted(
            job=rollback_job(self.table, plan.instant, request),
            what="operation.rollback",
            plan=plan.plan,
            columns={
                "instant": plan.instant,
                "progress_total": len(plan.files),
                "progress_unit": "files",
            },
            details={"instant": plan.instant},
        )


def do_request_rollback(
    table: Table,
    instant: InstantTime,
    plan_hash: str,
    reason: str,
    typed_name: str,
    by: User,
    idempotency_key: str | None = None,
) -> Operation:
    """Queue the rollback that was shown as `plan_hash`. Raises what `do_request` raises."""
    given = Given(
        reason=reason, typed_name=typed_name, plan_hash=plan_hash, idempotency_key=idempotency_key
    )
    return do_request(RollbackAsk(table, instant), Requester.person(by), given)


def rollback_job(table: Table, instant: InstantTime, request: Request) -> RollbackJob:
    return RollbackJob(
        operation_id=str(request.operation_id),
        table=table.location,
        instant=instant,
        plan_hash=request.plan_hash,
        reason=request.reason,
        by=request.by.name,
        run_dir=run_dir(request.operation_id),
        report_url=settings.SLUICE_REPORT_URL,
    )


def _confirm(operation: Operation, claimed: OperationState) -> Outcome | None:
    proof = rollback_proof(operation.table, operation.instant, operation.plan)
    if proof.is_proved:
        message = "" if claimed is OperationState.SUCCEEDED else f"rolled back {operation.instant}"
        return Outcome(OperationState.SUCCEEDED, message)
    return without_effect(operation, claimed)


def _again(operation: Operation, changed: Mapping[str, Any]) -> RollbackAsk:
    """Raises InvalidRequest for a change: another instant is another rollback."""
    if changed:
        raise InvalidRequest(
            "a rollback has no parameters that can change", unknown=sorted(changed)
        )
    return RollbackAsk(operation.table, operation.parameters["job"]["instant"])


KIND = Kind(
    name="rollback",
    job=RollbackJob,
    # Without a plan it ends a writer that is pending, which takes no committed data away.
    permission=lambda subject: (
        Permission.ADMINISTER if subject.is_bound_to_plan else Permission.OPERATE
    ),
    confirm=_confirm,
    titles=ROLLBACK_TITLES,
    checks=rollback_checks,
    may_name=lambda operation, instant: False,  # It is what was asked to be undone.
    settle=settled_by_storage,
    is_settled_unsent=True,
    has_trace=False,
    is_planned=True,
    again=_again,
    page="rollback",
    heading=lambda operation: f"Rollback of {operation.instant}",
)
