"""Approving of what somebody else asked for, or declining it: once, by another person with the same
right, and only of the plan that was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404
from django.utils import timezone

from controlplane.audit.shell import SHELL_SUFFIX, get_acting_user, get_shell_user
from controlplane.errors import InvalidRequest, NotAllowedNow, PlanVoid
from controlplane.operations.approvals.awaiting import (
    NODE,
    do_end,
    do_expire_if_due,
    is_held_awaiting,
    record_approval,
)
from controlplane.operations.ask import Ask, Plan
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.kinds.table_service import ServiceAsk
from controlplane.operations.leave import is_of_shell, may_request_still
from controlplane.operations.models import Approval, Operation
from controlplane.operations.moves import move, send
from controlplane.operations.permissions import check_row_choice
from controlplane.operations.queries import requested_by
from controlplane.operations.registered import hold_registered
from controlplane.operations.requesting import check_plan
from controlplane.operations.states import OperationState
from controlplane.tables.access import access_table, visible_tables

_PENDING = Approval.Decision.PENDING.value


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides: a person, or whoever has a shell of this machine."""

    user: User | None
    name: str

    @classmethod
    def person(cls, user: User) -> Decider:
        return cls(user, user.get_username())

    @classmethod
    def shell(cls) -> Decider:
        return cls(get_acting_user(), get_shell_user())


def do_approve(operation_id: UUID, *, by: Decider, plan_hash: str, reason: str) -> Operation:
    """Queue it in its requester's name. `plan_hash` is of the plan that the approver looked at.
    The same person approving again changes nothing.

    Raises Http404; PermissionDenied, also for whoever asked for it; InvalidRequest for no reason;
    PlanVoid where the table moved on since it was asked for, which ends it; NotAllowedNow for one
    that is decided, withdrawn or expired, and while its plan is blocked; StorageUnavailable.
    """
    approval = awaited(operation_id, by)
    operation = approval.operation
    check_decider(operation, by)
    _check_reason(reason)
    if approval.decision == Approval.Decision.APPROVED.value and _is_by(approval, by):
        return operation
    check_pending(approval)
    if not may_request_still(operation):
        words = "the requester is no longer authorized"
        do_end(operation, Approval.Decision.VOID, who=NODE, words=words)
        raise NotAllowedNow(words, operation=str(operation.pk))
    plan = plan_now(operation)
    _check_same(operation, plan, plan_hash)
    check_plan(ask_of(operation), plan, operation.plan_hash)
    with transaction.atomic():
        hold_registered(operation.table)
        if not is_held_awaiting(operation):
            raise NotAllowedNow("another user has already decided", operation=str(operation.pk))
        Approval.objects.filter(operation=operation).update(
            decision=Approval.Decision.APPROVED.value,
            decided_by=by.user,
            decided_in_shell=by.user is None,
            decided_by_name=by.name,
            decided_at=timezone.now(),
            reason=reason.strip(),
        )
        moved = move(operation.pk, OperationState.QUEUED, message=f"approved by {by.name}")
        assert moved is not None, operation
        record_approval(
            approval, "approval.approve", who=by.name, result="approved", reason=reason.strip()
        )
        send(moved)
    return moved


def do_decline(operation_id: UUID, *, by: Decider, reason: str) -> None:
    """It ends as refused, and never runs. Declining again changes nothing.

    Raises as `do_approve`, without PlanVoid and StorageUnavailable.
    """
    approval = awaited(operation_id, by)
    check_decider(approval.operation, by)
    _check_reason(reason)
    if approval.decision == Approval.Decision.DECLINED.value and _is_by(approval, by):
        return
    check_pending(approval)
    is_ended = do_end(
        approval.operation,
        Approval.Decision.DECLINED,
        who=by.name,
        words=f"declined by {by.name}: {reason.strip()}",
        reason=reason.strip(),
    )
    if not is_ended:
        raise NotAllowedNow("another user has already decided", operation=str(operation_id))


def awaited(operation_id: UUID, by: Decider) -> Approval:
    """The approval of this operation. Raises Http404 for one that there is not, or whose table
    `by` may not see, without a difference.
    """
    rows = Approval.objects.select_related("operation__table", "operation__requested_by")
    if by.user is not None:
        rows = rows.filter(operation__table__in=visible_tables(by.user))
    approval = rows.filter(pk=operation_id).first()
    if approval is None:
        raise Http404(f"approval {operation_id} not found")
    return approval


def check_decider(operation: Operation, by: Decider) -> None:
    """Refuse, as PermissionDenied, whoever lacks the right that the request needs, and for whoever
    made the request.
    """
    if by.user is not None:
        access_table(by.user, operation.table.slug, kind_of(operation).permission(operation))
        parameters = operation.parameters["job"].get("parameters", {})
        check_row_choice(by.user, operation.table, operation.service, parameters)
    if is_requester(operation, by):
        raise PermissionDenied("you cannot approve your own request: another user must approve it")


def is_requester(operation: Operation, by: Decider) -> bool:
    """A person is known by the account, and whoever has a shell by the name on this machine. What
    a shell asked for, no shell approves of.
    """
    if by.user is not None and operation.requested_by is not None:
        return by.user.pk == operation.requested_by.pk
    if by.user is None and is_of_shell(operation):
        return True
    return _bare(by.name) == _bare(requested_by(operation))


def may_decide(operation: Operation, by: Decider) -> bool:
    """Whether `check_decider` lets them through."""
    try:
        check_decider(operation, by)
    except PermissionDenied:
        return False
    return True


def check_pending(approval: Approval) -> None:
    """Refuse, as NotAllowedNow, what awaits nobody, also for one whose time is over: then it has
    ended.
    """
    operation = approval.operation
    if do_expire_if_due(operation, timezone.now()):
        raise NotAllowedNow("the request was not approved in time: request the operation again")
    if approval.decision != _PENDING or operation.state != OperationState.AWAITING.value:
        raise NotAllowedNow(
            "the request is already decided", decision=approval.decision, state=operation.state
        )


def ask_of(operation: Operation) -> Ask[Any]:
    """What was asked for, to be planned again. Raises InvalidRequest."""
    again = kind_of(operation).again
    assert again is not None, operation
    ask = again(operation, {})
    if isinstance(ask, ServiceAsk) and is_of_shell(operation):
        return replace(ask, is_shell=True)
    return ask


def plan_now(operation: Operation, reader: User | None = None) -> Plan:
    """What it would do now, with sample rows of a service as far as `reader` may read them. Raises
    ControlPlaneError.
    """
    ask = ask_of(operation)
    plan: Plan | None = ask.plan_for(reader) if isinstance(ask, ServiceAsk) else ask.plan()
    assert plan is not None, operation
    return plan


def _check_same(operation: Operation, plan: Plan, plan_hash: str) -> None:
    if plan.plan_hash != operation.plan_hash:
        words = "the table changed since the request: request the operation again"
        do_end(operation, Approval.Decision.VOID, who=NODE, words=words)
        raise PlanVoid(words, table=operation.table.slug)
    if plan_hash != operation.plan_hash:
        raise InvalidRequest("the plan differs from the requested plan: check it again")


def _check_reason(reason: str) -> None:
    if not reason.strip() or len(reason) > REASON_CHARS_MAX:
        raise InvalidRequest(f"a reason of up to {REASON_CHARS_MAX} characters is required")


def _bare(name: str) -> str:
    return name.removesuffix(SHELL_SUFFIX)


def _is_by(approval: Approval, by: Decider) -> bool:
    return approval.decided_by_name == by.name
