"""Whether somebody may still do what he asked for, when it is sent again and when a worker is about
to begin (threat T14): a role may have been taken away while it waited.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.models import Approval, Operation
from controlplane.operations.moves import REQUESTED_IN_SHELL, move
from controlplane.operations.named_connections import connection_problem
from controlplane.operations.request_places import may_still_name
from controlplane.operations.states import FINAL, OperationState
from controlplane.tables.access import may


def may_still(operation: Operation) -> bool:
    """Whether its requester has the role for it now, and so has whoever approved of it; of what a
    schedule started, whether it may run unasked.
    """
    return is_approval_kept(operation) and may_request_still(operation)


def may_request_still(operation: Operation) -> bool:
    """The same of its requester alone."""
    kind = kind_of(operation)
    if operation.requested_by is None:
        is_free = is_of_shell(operation) or kind.may_run_unasked(operation)
        return is_free and not connection_problem(operation)
    by = operation.requested_by
    has_role = may(by, kind.permission(operation), operation.table)
    may_read = may_still_name(by, operation.parameters.get("job", {}))
    if not (has_role and may_read and kind.is_still_granted(operation)):
        return False
    return not connection_problem(operation)


def is_approval_kept(operation: Operation) -> bool:
    """Whether whoever approved of it has the role for it now; never before somebody did, and always
    of what needed no approval.
    """
    approval = Approval.objects.select_related("decided_by").filter(operation=operation).first()
    if approval is None:
        return True
    approver = approval.decided_by
    if approval.decision != Approval.Decision.APPROVED.value or approver is None:
        return approval.decided_in_shell
    return may(approver, kind_of(operation).permission(operation), operation.table)


def is_of_shell(operation: Operation) -> bool:
    """Whether it was asked for in a shell, and a worker runs it: no role is asked of a shell."""
    return bool(operation.parameters.get(REQUESTED_IN_SHELL))


def do_give_leave(operation_id: UUID) -> bool | None:
    """Whether a worker may begin this operation, which a person asked for; one that may not, and
    waits, has ended then as refused. What has ended is not begun: its requester was told how, and
    may have asked for it again. None for an operation that there is not.
    """
    with transaction.atomic():
        rows = Operation.objects.select_for_update(of=("self",))
        named = rows.select_related("table", "requested_by").filter(pk=operation_id)
        operation = named.first()
        if operation is None:
            return None
        # Whose requester is gone was asked for by a person all the same.
        has_requester = operation.requested_by is not None or is_of_shell(operation)
        if has_requester and may_still(operation):
            return OperationState(operation.state) not in FINAL
        refuse(operation)
    return False


def refuse(operation: Operation) -> None:
    """End it: as refused where nobody has begun it, else as failed. It is in the audit."""
    is_queued = operation.state == OperationState.QUEUED.value
    ended = OperationState.REFUSED if is_queued else OperationState.FAILED
    move(operation.pk, ended, message=_why(operation))


def _why(operation: Operation) -> str:
    permission = kind_of(operation).permission(operation)
    by, role = operation.requested_by, permission.role
    if problem := connection_problem(operation):
        return problem
    if not is_approval_kept(operation):
        return f"its approver is no longer authorized: this requires the {role} role"
    if by is not None and may(by, permission, operation.table):
        return f"its requester {by.get_username()} may no longer read what it reads"
    who = f"its requester {by.get_username()}" if by is not None else "its requester is gone and"
    return f"{who} is no longer authorized: this requires the {role} role on {operation.table.slug}"
