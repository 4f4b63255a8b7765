"""The one place that changes an operation's state: it asks `states`, audits an end, tells the
pages.

Also where an operation's job is put into the queue; the row is always there first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from controlplane.audit.actions import do_record
from controlplane.celery import app
from controlplane.events import publish_change
from controlplane.instruments import count_ended
from controlplane.operations.attempts import add_attempt, end_attempt, set_worker, start_attempt
from controlplane.operations.engine_queue import QUEUE, SENT_AT
from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.log_storing import do_note
from controlplane.operations.models import Operation
from controlplane.operations.states import FINAL, OperationState, may_move
from workers.jobs import CancelJob
from workers.reporting.tokens import SIGNATURE, sign_message
from workers.task_logs import HEADER
from workers.traces import PARENT, current_parent

log = logging.getLogger(__name__)

REQUEST_ID = "request_id"
"""Of an operation's parameters: the request that asked for it, also when its job is sent again."""
TRACE = "trace"
"""Of an operation's parameters: the span that asked for it, where traces are wanted."""
REQUESTED_IN_SHELL = "asked_in_shell"
"""Of an operation's parameters: a worker carries it out once somebody has approved of it."""
_BEGUN = frozenset(
    {
        OperationState.STARTING,
        OperationState.RUNNING,
        OperationState.STOPPING,
        OperationState.CANCELLING,
    }
)
_LEVELS = {
    OperationState.FAILED: logging.ERROR,
    OperationState.LOST: logging.ERROR,
    OperationState.CONFLICTED: logging.WARNING,
    OperationState.ROLLED_BACK: logging.WARNING,
    OperationState.FENCED: logging.WARNING,
    OperationState.UNKNOWN: logging.WARNING,
}


def move(operation_id: UUID, wanted: OperationState, *, message: str = "") -> Operation | None:
    """The operation in its new state; None where the table of moves forbids it, which late reports
    run into, and where it went with its table.
    """
    with transaction.atomic():
        operation = _locked(operation_id)
        if operation is None:
            return None
        current = OperationState(operation.state)
        if not may_move(current, wanted):
            if current is not wanted:
                log.info(
                    "transition rejected: operation=%s from=%s to=%s", operation_id, current, wanted
                )
            return None
        now = timezone.now()
        operation.state = wanted.value
        if message:
            operation.message = message
        if wanted in _BEGUN:
            operation.started_at = operation.started_at or now
            start_attempt(operation, now)
        if wanted in FINAL:
            if operation.finished_at is None:
                _count_end(operation, now)
            operation.finished_at = operation.finished_at or now
            end_attempt(operation, now, wanted.value)
            _audit_end(operation)
        operation.save()
        _note_move(operation, current, message)
        publish_state(operation)
    return operation


def amend(operation_id: UUID, **values: Any) -> None:
    """Set columns other than the state, and tell the pages; nothing where its table is gone."""
    assert "state" not in values, values
    with transaction.atomic():
        operation = _locked(operation_id)
        if operation is None:
            return
        for name, value in values.items():
            setattr(operation, name, value)
        operation.save()
        publish_state(operation)


def record_worker(operation_id: UUID, worker: Mapping[str, Any]) -> None:
    """Keep which worker took the job. A shell that carries it out is one too."""
    with transaction.atomic():
        operation = _locked(operation_id)
        if operation is not None and OperationState(operation.state) not in FINAL:
            set_worker(operation, worker, timezone.now())
            operation.save(update_fields=["attempt_log", "changed_at"])


def publish_state(operation: Operation) -> None:
    publish_change(
        operation.table.slug, "operations", operation=str(operation.pk), state=operation.state
    )


def send(operation: Operation) -> None:
    """Hand the job to the workers, after the transaction at hand. When the queue is away,
    `reconcile` tries again.
    """
    task = kind_of(operation).job.TASK
    message = dict(operation.parameters["job"])
    if "attempt" in message:
        message["attempt"] = operation.attempts
    if message.get("report_url"):  # Else its worker reaches nobody whom it could ask.
        is_of_person = operation.requested_by_id is not None
        message["asks_leave"] = is_of_person or bool(operation.parameters.get(REQUESTED_IN_SHELL))
    _record_sending(operation)
    request_id = str(operation.parameters.get(REQUEST_ID, ""))
    parent = str(operation.parameters.get(TRACE, ""))
    transaction.on_commit(lambda: _send_now(operation.pk, task, message, request_id, parent))


def _record_sending(operation: Operation) -> None:
    """Add the attempt to the row as it is now: a report may have changed it since it was read."""
    with transaction.atomic():
        current = _locked(operation.pk)
        if current is not None:
            add_attempt(current, timezone.now(), queue=QUEUE)
            current.save(update_fields=["attempt_log", "changed_at"])
            operation.attempt_log = current.attempt_log


def send_cancel(operation: Operation, job: CancelJob) -> None:
    parent = current_parent()
    transaction.on_commit(
        lambda: _send_now(operation.pk, CancelJob.TASK, job.to_message(), parent=parent)
    )


def _send_now(
    operation_id: UUID,
    task: str,
    message: Mapping[str, Any],
    request_id: str = "",
    parent: str = "",
) -> None:
    """Without an id, in the name of the request at hand, if there is one."""
    body = dict(message)
    signature = sign_message(settings.SLUICE_WORKER_TOKEN, task, body, parent)
    headers = {
        HEADER: request_id,
        SIGNATURE: signature,
        SENT_AT: timezone.now().isoformat(),
        **({PARENT: parent} if parent else {}),
    }
    try:
        app.send_task(task, args=[body], queue=QUEUE, retry=False, headers=headers)
    except OperationalError as error:
        log.warning("the queue does not answer: operation=%s error=%s", operation_id, error)
        return
    Operation.objects.filter(pk=operation_id).update(sent_at=timezone.now())


def _note_move(operation: Operation, before: OperationState, message: str) -> None:
    """Its log tells its states as well."""
    words = f"{before} -> {operation.state}"
    level = _LEVELS.get(OperationState(operation.state), logging.INFO)
    do_note(operation, f"{words}: {message}" if message else words, level=level)


def _locked(operation_id: UUID) -> Operation | None:
    # Only the operation's own row: PostgreSQL locks no row of an outer join.
    rows = Operation.objects.select_related("table").select_for_update(of=("self",))
    return rows.filter(pk=operation_id).first()


def _who(operation: Operation) -> str:
    """Nobody asked for what a schedule started; its job says so."""
    if operation.requested_by is not None:
        return operation.requested_by.get_username()
    return str(operation.parameters.get("job", {}).get("by", ""))


def _count_end(operation: Operation, now: datetime) -> None:
    """Its first end alone: a later correction is no second operation."""
    count = partial(
        count_ended,
        operation.kind,
        operation.state,
        requested_at=operation.requested_at,
        started_at=operation.started_at,
        finished_at=now,
    )
    transaction.on_commit(count)


def _audit_end(operation: Operation) -> None:
    named = f"{operation.kind}.{operation.service}" if operation.service else ""
    do_record(
        who=_who(operation),
        what=named or f"operation.{operation.kind}",
        subject=operation.table.slug,
        result=operation.state,
        reason=operation.reason,
        plan_hash=operation.plan_hash,
        details={"operation": str(operation.pk), "instant": operation.instant},
    )
