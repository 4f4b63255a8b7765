"""Ending an operation that somebody asked for, before its end."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from controlplane.audit.actions import do_record
from controlplane.errors import NotAllowedNow
from controlplane.operations.kinds.kind import Cancelling, kind_named
from controlplane.operations.models import Operation
from controlplane.operations.moves import move, send_cancel
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import FINAL, OperationState
from workers.jobs import CancelJob
from workers.spark.process import forbid_launch

SPARK_USER = "sluice"
_S = OperationState


class Cancellable(Protocol):
    """An operation, or its row."""

    @property
    def kind(self) -> str: ...
    @property
    def service(self) -> str: ...
    @property
    def state(self) -> str: ...


def do_request_cancel(*, operation: Operation, by: User, reason: str = "") -> Operation:
    """End a write or a service. A service that no worker took yet ends at once; one that runs stops
    at its next safe point, between two things that its plan names, and its plan stays.

    Raises NotAllowedNow when it has ended or cannot be cancelled.
    """
    if _S(operation.state) in FINAL:
        raise NotAllowedNow("the operation has ended", state=operation.state)
    kind = kind_named(operation.kind)
    if kind.cancelling is Cancelling.STOPPED:
        raise NotAllowedNow(
            f"a {kind.name} cannot be cancelled: stop it instead", sink=operation.sink_id
        )
    if not is_cancellable(operation):
        raise NotAllowedNow(
            "this operation cannot be cancelled once it has started",
            kind=operation.service or operation.kind,
        )
    is_by_job = kind.cancelling is Cancelling.BY_JOB
    is_awaiting = operation.state == _S.AWAITING.value
    is_begun = not is_awaiting and (is_by_job or operation.state != _S.QUEUED.value)
    with transaction.atomic():
        message = "cancelling" if is_begun else "cancelled before it began"
        moved = move(operation.pk, _S.CANCELLING if is_begun else _S.CANCELLED, message=message)
        if moved is None:
            raise NotAllowedNow("the operation cannot be cancelled now", state=operation.state)
        do_record(
            who=by.get_username(),
            what="operation.cancel",
            subject=operation.table.slug,
            result="requested",
            reason=reason,
            details={"operation": str(operation.pk)},
        )
        if is_by_job and is_begun:
            job = cancel_job(moved, by=by.get_username(), reason=reason or "cancelled")
            send_cancel(moved, job)
        else:
            folder = Path(run_dir(operation.pk))
            transaction.on_commit(lambda: forbid_launch(folder))
    return moved


def is_cancellable(operation: Cancellable) -> bool:
    """Whether `do_request_cancel` would take it in this state."""
    if _S(operation.state) in FINAL | {_S.CANCELLING}:
        return False
    if operation.state == _S.AWAITING.value:
        return True
    kind = kind_named(operation.kind)
    match kind.cancelling:
        case Cancelling.BY_JOB:
            return True
        case Cancelling.BETWEEN_STEPS:
            is_queued = operation.state == _S.QUEUED.value
            return is_queued or not kind.is_carried_on(operation.service)
        case Cancelling.NEVER | Cancelling.STOPPED:
            return False


def cancel_job(operation: Operation, *, by: str, reason: str) -> CancelJob:
    return CancelJob(
        operation_id=str(operation.pk),
        table=operation.table.location,
        session_id=operation.session_id,
        user_id=operation.user_id_spark or SPARK_USER,
        pid=operation.pid,
        run_dir=run_dir(operation.pk),
        reason=reason,
        by=by,
        report_url=settings.SLUICE_REPORT_URL,
    )
