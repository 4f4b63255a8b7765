"""Asking for a write, or for the end of one. A row and an audit entry in one transaction, the job
after it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from controlplane.audit.services import record
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.operations.models import Operation
from controlplane.operations.moves import move, send, send_cancel, tell
from controlplane.operations.states import FINAL, OperationKind, OperationState
from controlplane.tables.models import Table
from workers.config import write_options
from workers.errors import InvalidInput
from workers.jobs import CancelJob, WriteJob
from workers.spark.settings import checked_settings

PARAMETERS = frozenset({"source", "operation", "stream", "options", "spark_conf"})
SPARK_USER = "sluice"


def request_write(
    *,
    table: Table,
    parameters: Mapping[str, Any],
    by: User,
    reason: str = "",
    restarts: int = 0,
) -> Operation:
    """Queue a Spark write of `parameters["source"]` into `table`.

    Raises InvalidRequest for an unknown parameter, option or Spark setting, before anything is
    stored.
    """
    operation_id = uuid.uuid4()
    session_id = str(uuid.uuid4())
    job = _write_job(table, parameters, operation_id, session_id)
    with transaction.atomic():
        operation = Operation.objects.create(
            pk=operation_id,
            table=table,
            kind=OperationKind.WRITE.value,
            requested_by=by,
            reason=reason,
            session_id=session_id,
            user_id_spark=SPARK_USER,
            parameters={
                "job": job.to_message(),
                "writer": job.options.get("sluice.writer.name", ""),
                "stream": job.stream or "",
                "restarts": restarts,
            },
        )
        record(
            who=by.get_username(),
            what="operation.write",
            subject=table.slug,
            result="requested",
            reason=reason,
            details={"operation": str(operation.pk), "source": dict(job.source)},
        )
        send(operation)
        tell(operation)
    return operation


def request_cancel(*, operation: Operation, by: User, reason: str = "") -> Operation:
    """End a write. One that no worker took yet ends at once.

    Raises NotAllowedNow when it has ended or is no write.
    """
    if operation.kind != OperationKind.WRITE.value:
        raise NotAllowedNow("only a write can be cancelled", kind=operation.kind)
    if OperationState(operation.state) in FINAL:
        raise NotAllowedNow("the operation has ended", state=operation.state)
    with transaction.atomic():
        moved = move(operation.pk, OperationState.CANCELLING, message="cancelling")
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
        send_cancel(moved, cancel_job(moved, by=by.get_username(), reason=reason or "cancelled"))
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


def run_dir(operation_id: uuid.UUID) -> str:
    return str(settings.SLUICE_HOME / "run" / "operations" / str(operation_id))


def _write_job(
    table: Table, parameters: Mapping[str, Any], operation_id: uuid.UUID, session_id: str
) -> WriteJob:
    if unknown := sorted(set(parameters) - PARAMETERS):
        raise InvalidRequest("unknown parameters", unknown=unknown, known=sorted(PARAMETERS))
    options = dict(parameters.get("options") or {})
    options.setdefault("sluice.operation.id", str(operation_id))
    spark_conf = dict(parameters.get("spark_conf") or {})
    try:
        write_options(options)
        checked_settings(spark_conf)
        return WriteJob(
            operation_id=str(operation_id),
            table=table.location,
            source=dict(parameters.get("source") or {}),
            operation=str(parameters.get("operation") or "upsert"),
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
