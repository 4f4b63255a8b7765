"""The one way into the queue: a row, an audit entry and the message, in one transaction.

The same request by the same person, told by its key, is one operation however often it comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from controlplane.audit.services import record
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.operations.models import Operation
from controlplane.operations.moves import send, tell
from controlplane.operations.states import OperationKind
from controlplane.tables.models import Table
from workers.jobs import ReplayJob, RollbackJob, ServiceJob, SinkJob, WriteJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An operation that is not yet in the database."""

    table: Table
    kind: OperationKind
    job: WriteJob | RollbackJob | ServiceJob | SinkJob | ReplayJob
    by: User | None
    who: str
    """For the audit; the person's name, or a schedule's."""
    what: str
    """For the audit: `operation.write`, `service.clean`."""
    reason: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    plan_hash: str = ""
    idempotency_key: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the row."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Kept beside the job."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """For the audit."""


def queue(wanted: Wanted) -> Operation:
    """Raises IntegrityError where the database allows only one."""
    with transaction.atomic():
        operation = Operation.objects.create(
            pk=UUID(wanted.job.operation_id),
            table=wanted.table,
            kind=wanted.kind.value,
            requested_by=wanted.by,
            reason=wanted.reason,
            plan=dict(wanted.plan),
            plan_hash=wanted.plan_hash,
            parameters={"job": wanted.job.to_message(), **wanted.parameters},
            idempotency_key=wanted.idempotency_key or None,
            **wanted.columns,
        )
        record(
            who=wanted.who,
            what=wanted.what,
            subject=wanted.table.slug,
            result="requested",
            reason=wanted.reason,
            plan_hash=wanted.plan_hash,
            details={"operation": str(operation.pk), **wanted.details},
        )
        send(operation)
        tell(operation)
    return operation


def queue_once(wanted: Wanted, same: Mapping[str, Any], *, busy: str) -> Operation:
    """`same`: the columns that tell this request from another under its key.

    Raises NotAllowedNow, saying `busy`, while one of its kind is open; InvalidRequest when the key
    was used for another request.
    """
    try:
        return queue(wanted)
    except IntegrityError as error:
        # The same request, twice at once.
        if wanted.by and (known := known_request(wanted.by, wanted.idempotency_key, same)):
            return known
        raise NotAllowedNow(busy, table=wanted.table.slug) from error


def known_request(
    by: User, idempotency_key: str | None, same: Mapping[str, Any]
) -> Operation | None:
    """What the same person already asked for with this key.

    Raises InvalidRequest when that was something else.
    """
    if not idempotency_key:
        return None
    known = Operation.objects.filter(requested_by=by, idempotency_key=idempotency_key).first()
    if known and any(getattr(known, name) != value for name, value in same.items()):
        raise InvalidRequest("this idempotency key was used for another request")
    return known
