"""Asking for a write, or for the end of one. A row and an audit entry in one transaction, the job
after it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from controlplane.audit.actions import record
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.operations.confirmation import Confirmation
from controlplane.operations.models import Operation
from controlplane.operations.moves import move, send_cancel
from controlplane.operations.queueing import Request, Requester, Wanted
from controlplane.operations.request_places import check_places, check_source
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import FINAL, OperationKind, OperationState
from controlplane.tables.access import Permission
from controlplane.tables.models import Table
from workers.errors import InvalidInput
from workers.jobs import OPERATIONS, CancelJob, WriteJob
from workers.options.node_options import refuse_connections
from workers.options.write_options import write_options
from workers.spark.process import forbid_launch
from workers.spark.settings import checked_settings
from workers.table_services import registry
from workers.table_services.inline import own_options

PARAMETERS = frozenset({"source", "operation", "stream", "options", "spark_conf"})
SPARK_USER = "sluice"
PLANNED_OPERATIONS = frozenset(
    {"delete", "delete_partition", "insert_overwrite", "insert_overwrite_table"}
)
"""Of a write's operations those that take data away: services, with a plan and its hash."""
WRITE_OPERATIONS = (*OPERATIONS, "delete_partition")


@dataclass(frozen=True, slots=True)
class WriteAsk:
    """Write one source into the table, with Spark."""

    table: Table
    parameters: Mapping[str, Any]
    restarts: int = 0
    name: str = "write"
    permission: Permission = Permission.OPERATE
    confirmation: Confirmation = Confirmation.NONE
    is_bound_to_plan: bool = False
    busy: str = "this write is under way"

    @property
    def body(self) -> dict[str, Any]:
        return dict(self.parameters)

    def plan(self) -> None:
        """What takes data away is a service; whatever else is written is not known before."""

    def wanted(self, request: Request, plan: None) -> Wanted:
        session_id = str(uuid.uuid4())
        job = _write_job(self.table, self.parameters, request.operation_id, session_id)
        return Wanted(
            table=self.table,
            kind=OperationKind.WRITE,
            job=job,
            what="operation.write",
            columns={"session_id": session_id, "user_id_spark": SPARK_USER},
            parameters={
                "writer": job.options.get("sluice.writer.name", ""),
                "stream": job.stream or "",
                "restarts": self.restarts,
            },
            details={"source": dict(job.source)},
        )


def request_write(
    *,
    table: Table,
    parameters: Mapping[str, Any],
    by: User,
    reason: str = "",
    restarts: int = 0,
    idempotency_key: str | None = None,
) -> Operation:
    """Queue a Spark write of `parameters["source"]` into `table`.

    Raises what `do_request` raises, InvalidRequest for an unknown parameter, option or Spark
    setting, before anything is stored.
    """
    given = Given(reason=reason, idempotency_key=idempotency_key)
    return do_request(WriteAsk(table, parameters, restarts), Requester.person(by), given)


def request_cancel(*, operation: Operation, by: User, reason: str = "") -> Operation:
    """End a write or a service. A service that no worker took yet ends at once; one that runs stops
    at its next safe point, between two things that its plan names, and its plan stays.

    Raises NotAllowedNow when it has ended or cannot be cancelled.
    """
    if OperationState(operation.state) in FINAL:
        raise NotAllowedNow("the operation has ended", state=operation.state)
    if operation.kind == OperationKind.SINK.value:
        raise NotAllowedNow("a sink is not cancelled but stopped", sink=operation.sink_id)
    if not is_cancellable(operation.kind, operation.service, operation.state):
        raise NotAllowedNow(
            "this is carried to its end once it began", kind=operation.service or operation.kind
        )
    is_write = operation.kind == OperationKind.WRITE.value
    is_begun = is_write or operation.state != OperationState.QUEUED.value
    wanted = OperationState.CANCELLING if is_begun else OperationState.CANCELLED
    return _cancel(operation, by, reason, wanted)


def is_cancellable(kind: str, service: str, state: str) -> bool:
    """Whether `request_cancel` would take an operation of this kind in this state."""
    if OperationState(state) in FINAL | {OperationState.CANCELLING}:
        return False
    if kind == OperationKind.SERVICE.value:
        is_queued = state == OperationState.QUEUED.value
        return is_queued or service not in registry.FINISHED_ONCE_BEGUN
    return kind == OperationKind.WRITE.value


def _cancel(operation: Operation, by: User, reason: str, wanted: OperationState) -> Operation:
    is_service = operation.kind == OperationKind.SERVICE.value
    with transaction.atomic():
        message = "cancelled before it began" if wanted in FINAL else "cancelling"
        moved = move(operation.pk, wanted, message=message)
        if moved is None:
            raise NotAllowedNow("the operation cannot be cancelled now", state=operation.state)
        record(
            who=by.get_username(),
            what="operation.cancel",
            subject=operation.table.slug,
            result="requested",
            reason=reason,
            details={"operation": str(operation.pk)},
        )
        if is_service:
            folder = Path(run_dir(operation.pk))
            transaction.on_commit(lambda: forbid_launch(folder))
        else:
            job = cancel_job(moved, by=by.get_username(), reason=reason or "cancelled")
            send_cancel(moved, job)
    return moved


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


def _write_job(
    table: Table, parameters: Mapping[str, Any], operation_id: uuid.UUID, session_id: str
) -> WriteJob:
    if unknown := sorted(set(parameters) - PARAMETERS):
        raise InvalidRequest("unknown parameters", unknown=unknown, known=sorted(PARAMETERS))
    operation = str(parameters.get("operation") or "upsert")
    if operation in PLANNED_OPERATIONS:
        raise InvalidRequest(
            "this takes data away, so it is planned and confirmed first", operation=operation
        )
    options = dict(parameters.get("options") or {})
    options.setdefault("sluice.operation.id", str(operation_id))
    spark_conf = dict(parameters.get("spark_conf") or {})
    source = dict(parameters.get("source") or {})
    check_source(source)
    try:
        refuse_connections(options)
        write_options(own_options(options))
        check_places(options)
        checked_settings(spark_conf)
        return WriteJob(
            operation_id=str(operation_id),
            table=table.location,
            source=source,
            operation=operation,
            stream=parameters.get("stream") or None,
            options=options,
            spark_conf=spark_conf,
            session_id=session_id,
            user_id=SPARK_USER,
            run_dir=run_dir(operation_id),
            report_url=settings.SLUICE_REPORT_URL,
        )
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
