"""The one way into the queue: a row, an audit entry and the message, in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from controlplane.audit.actions import do_record
from controlplane.operations.kinds.kind import Job, Kind
from controlplane.operations.models import Operation
from controlplane.operations.moves import move, publish_state, send
from controlplane.operations.states import OperationState
from controlplane.tables.models import Table

IS_SHELL = "is_shell"
"""Of an operation's parameters: no worker ever gets it."""


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks: a person, or what asks by itself."""

    user: User | None
    name: str
    """For the audit, and for what is written on the table."""
    is_shell: bool = False
    """Then no worker gets it: the shell carries it out in its own process, right after."""

    @classmethod
    def person(cls, user: User) -> Requester:
        return cls(user, user.get_username())


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asks for an operation and with which words, once both are checked."""

    by: Requester
    reason: str = ""
    plan_hash: str = ""
    """Of the plan that was shown; empty where none is needed."""
    idempotency_key: str | None = None
    digest: str = ""
    """Of all that was asked for: the same key with another digest is another request."""
    operation_id: uuid.UUID = field(default_factory=uuid.uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a kind of operation puts into its row, its message and the audit."""

    table: Table
    kind: Kind
    job: Job
    what: str
    """For the audit: `operation.write`, `service.clean`."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the row."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Kept beside the job."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """For the audit."""


def queue(wanted: Wanted, request: Request) -> Operation:
    """Raises IntegrityError where the database allows only one."""
    with transaction.atomic():
        operation = Operation.objects.create(
            pk=request.operation_id,
            table=wanted.table,
            kind=wanted.kind.name,
            requested_by=request.by.user,
            reason=request.reason,
            plan=dict(wanted.plan),
            plan_hash=request.plan_hash,
            parameters=_parameters(wanted, request),
            idempotency_key=request.idempotency_key or None,
            request_digest=request.digest,
            **wanted.columns,
        )
        do_record(
            who=request.by.name,
            what=wanted.what,
            subject=wanted.table.slug,
            result="requested",
            reason=request.reason,
            plan_hash=request.plan_hash,
            details={"operation": str(operation.pk), **wanted.details},
        )
        if request.by.is_shell:
            begun = move(operation.pk, OperationState.RUNNING, message="in a shell of this machine")
            assert begun is not None, operation
            return begun
        send(operation)
        publish_state(operation)
    return operation


def _parameters(wanted: Wanted, request: Request) -> dict[str, Any]:
    where = {IS_SHELL: True} if request.by.is_shell else {}
    return {"job": wanted.job.to_message(), **wanted.parameters, **where}
