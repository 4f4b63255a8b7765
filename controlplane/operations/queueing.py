"""The one way into the queue: a row, an audit entry and the message, in one transaction."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from controlplane.audit.actions import do_record
from controlplane.operations.ask import Ask, P, Request, Wanted
from controlplane.operations.log_storing import do_note
from controlplane.operations.models import Operation
from controlplane.operations.moves import REQUEST_ID, move, publish_state, send
from controlplane.operations.registered import hold_registered
from controlplane.operations.states import OperationState
from controlplane.tables.masks import without_row_choices
from workers.log_lines import current_request_id

IS_SHELL = "is_shell"
"""Of an operation's parameters: no worker ever gets it."""


def queue(ask: Ask[P], wanted: Wanted, request: Request) -> Operation:
    """Raises IntegrityError where the database allows only one, and NotAllowedNow for a table that
    was unregistered or relocated meanwhile.
    """
    with transaction.atomic():
        hold_registered(ask.table)
        operation = Operation.objects.create(
            pk=request.operation_id,
            table=ask.table,
            kind=ask.kind.name,
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
            subject=ask.table.slug,
            result="requested",
            reason=request.reason,
            plan_hash=request.plan_hash,
            details={"operation": str(operation.pk), **without_row_choices(wanted.details)},
        )
        words = f"asked for by {request.by.name}"
        do_note(operation, f"{words}: {request.reason}" if request.reason else words)
        if request.by.is_shell:
            begun = move(operation.pk, OperationState.RUNNING, message="in a shell of this machine")
            assert begun is not None, operation
            return begun
        send(operation)
        publish_state(operation)
    return operation


def _parameters(wanted: Wanted, request: Request) -> dict[str, Any]:
    where = {IS_SHELL: True} if request.by.is_shell else {}
    request_id = current_request_id.get()
    asked_by = {REQUEST_ID: request_id} if request_id else {}
    return {"job": wanted.job.to_message(), **wanted.parameters, **where, **asked_by}
