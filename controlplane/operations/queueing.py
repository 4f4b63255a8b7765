"""The one way into the queue: a row, an audit entry and the message, in one transaction."""

from __future__ import annotations

import os
import socket
from typing import Any

from django.db import transaction

from controlplane.audit.actions import do_record
from controlplane.operations.approvals.awaiting import do_await
from controlplane.operations.ask import Ask, Origin, P, Request, Wanted
from controlplane.operations.log_storing import do_note
from controlplane.operations.models import Operation
from controlplane.operations.moves import (
    REQUEST_ID,
    REQUESTED_IN_SHELL,
    TRACE,
    move,
    publish_state,
    record_worker,
    send,
)
from controlplane.operations.registered import hold_registered
from controlplane.operations.states import OperationState
from controlplane.operations.upload_uses import name_uploads, note_uses, to_references
from controlplane.tables.masks import without_row_choices
from workers.log_lines import current_request_id
from workers.traces import current_parent, span

IS_SHELL = "is_shell"
"""Of an operation's parameters: no worker ever gets it."""


def queue(
    ask: Ask[P], wanted: Wanted, request: Request, *, needs_approval: bool = False
) -> Operation:
    """What needs approval is sent only once it has it.

    Raises IntegrityError where the database allows only one, and NotAllowedNow for a table that
    was unregistered or relocated meanwhile.
    """
    facts = {"sluice.table": ask.table.slug, "sluice.operation": str(request.operation_id)}
    with span(f"operation {ask.kind.name}", facts, kind="producer"):
        return _queued(ask, wanted, request, needs_approval=needs_approval)


def _queued(ask: Ask[P], wanted: Wanted, request: Request, *, needs_approval: bool) -> Operation:
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
            state=(OperationState.AWAITING if needs_approval else OperationState.QUEUED).value,
            parameters=_parameters(wanted, request, is_own=not needs_approval),
            idempotency_key=request.idempotency_key or None,
            request_digest=request.digest,
            again_of=request.origin.operation if request.origin else None,
            **wanted.columns,
        )
        note_uses(operation)
        do_record(
            who=request.by.name,
            what=wanted.what,
            subject=ask.table.slug,
            result="requested",
            reason=request.reason,
            plan_hash=request.plan_hash,
            details={
                "operation": str(operation.pk),
                **without_row_choices(to_references(wanted.details)),
            },
        )
        words = f"asked for by {request.by.name}"
        do_note(operation, f"{words}: {request.reason}" if request.reason else words)
        if request.origin is not None:
            _note_origin(operation, request.origin, request.by.name)
        if needs_approval:
            do_await(operation, by=request.by.name)
            publish_state(operation)
            return operation
        if request.by.is_shell:
            record_worker(operation.pk, {"host": socket.gethostname(), "process": os.getpid()})
            begun = move(operation.pk, OperationState.RUNNING, message="in a shell of this machine")
            assert begun is not None, operation
            return begun
        send(operation)
        publish_state(operation)
    return operation


def _note_origin(operation: Operation, origin: Origin, by: str) -> None:
    do_record(
        who=by,
        what="operation.again",
        subject=operation.table.slug,
        result="requested",
        reason=operation.reason,
        details={
            "operation": str(operation.pk),
            "again_of": str(origin.operation.pk),
            "changed": without_row_choices(origin.changes()),
        },
    )
    do_note(operation, f"asked for again, after operation {origin.operation.pk}")


def _parameters(wanted: Wanted, request: Request, *, is_own: bool) -> dict[str, Any]:
    """`is_own`: what a shell asks for, it carries out itself."""
    where = {IS_SHELL if is_own else REQUESTED_IN_SHELL: True} if request.by.is_shell else {}
    request_id = current_request_id.get()
    correlated = {REQUEST_ID: request_id} if request_id else {}
    parent = current_parent()
    traced = {TRACE: parent} if parent else {}
    job = wanted.job.to_message()
    named = name_uploads(job)
    return {"job": job, **wanted.parameters, **named, **where, **correlated, **traced}
