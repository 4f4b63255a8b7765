"""The one way to ask for an operation, whatever its kind: role, idempotency key, words, plan hash,
audit. A kind (`kinds`) says what is asked for; nothing here knows one of them.

The same request by the same person, told by its key, is one operation however often it comes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError

from controlplane.errors import KeyReused, NotAllowedNow, PlanVoid
from controlplane.operations.approvals.rules import action_named, is_approval_needed
from controlplane.operations.ask import Ask, Origin, P, Plan, Request, Requester
from controlplane.operations.confirmation import check_words
from controlplane.operations.models import Operation
from controlplane.operations.queueing import queue
from controlplane.operations.request_places import check_named_places
from controlplane.tables.access import may


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What comes with every request beside its parameters."""

    reason: str = ""
    typed_name: str = ""
    plan_hash: str = ""
    idempotency_key: str | None = None


def do_request(
    ask: Ask[P], by: Requester, given: Given, *, origin: Origin | None = None
) -> Operation:
    """Queue what is asked for, once; where a rule wants a second approver, it awaits them first.
    With `origin` the operation and the audit name the one that is requested again.

    Raises PermissionDenied; KeyReused for a key that came with another request before;
    InvalidRequest for its words and parameters; PlanVoid when the table moved on since the plan
    was shown; NotAllowedNow for a plan that is blocked or empty, or while another one is open.
    """
    _check_role(ask, by)
    if by.user is not None or not by.is_shell:
        check_named_places(by.user, ask.body)
    digest = _digest(ask, given)
    if known := _known(by, given.idempotency_key, digest):
        return known
    check_words(ask.table, given.reason, given.typed_name, ask.confirmation)
    plan = ask.plan()
    if plan is not None:
        check_plan(ask, plan, given.plan_hash)
    request = Request(
        by=by,
        reason=given.reason.strip(),
        plan_hash=given.plan_hash,
        idempotency_key=given.idempotency_key,
        digest=digest,
        origin=origin,
    )
    needs_approval = ask.is_bound_to_plan and is_approval_needed(
        ask.table, action_named(ask.kind.name, ask.service)
    )
    try:
        return queue(ask, ask.wanted(request, plan), request, needs_approval=needs_approval)
    except IntegrityError as error:
        # The same request, twice at once.
        if known := _known(by, given.idempotency_key, digest):
            return known
        raise NotAllowedNow(ask.busy, table=ask.table.slug) from error


def do_request_unseen(ask: Ask[P], by: Requester, plan: P, reason: str) -> Operation:
    """Queue what nobody looks at first, because a schedule's turn has come. Reads no storage, so it
    may stand in a transaction; `plan` was made before it.

    Raises PermissionDenied, InvalidRequest, and NotAllowedNow while another one is open.
    """
    _check_role(ask, by)
    if by.user is not None or not by.is_shell:
        check_named_places(by.user, ask.body)
    request = Request(by=by, reason=reason)
    try:
        return queue(ask, ask.wanted(request, plan), request)
    except IntegrityError as error:
        raise NotAllowedNow(ask.busy, table=ask.table.slug) from error


def _check_role(ask: Ask[P], by: Requester) -> None:
    permission = ask.kind.permission(ask)
    if by.user is not None and not may(by.user, permission, ask.table):
        raise PermissionDenied(f"this requires the {permission.role} role")


def check_plan(ask: Ask[P], plan: Plan, plan_hash: str) -> None:
    """Refuse a plan that is not the one shown (PlanVoid), is blocked or empty (NotAllowedNow)."""
    is_bound = bool(plan_hash) or ask.is_bound_to_plan
    if is_bound and plan.plan_hash != plan_hash:
        raise PlanVoid("the table changed since the plan was shown", table=ask.table.slug)
    if plan.blockers:
        raise NotAllowedNow(f"this {ask.kind.name} is blocked", blockers=list(plan.blockers))
    if plan.is_empty:
        raise NotAllowedNow("nothing to do", table=ask.table.slug)


def _digest(ask: Ask[P], given: Given) -> str:
    request_body = {
        "ask": ask.request_name,
        "table": ask.table.pk,
        "body": dict(ask.body),
        "reason": given.reason.strip(),
        "plan_hash": given.plan_hash,
    }
    return hashlib.sha256(json.dumps(request_body, sort_keys=True).encode()).hexdigest()


def _known(by: Requester, idempotency_key: str | None, digest: str) -> Operation | None:
    """What the same person already asked for with this key."""
    if not idempotency_key or by.user is None:
        return None
    known = Operation.objects.filter(requested_by=by.user, idempotency_key=idempotency_key).first()
    if known is not None and known.request_digest != digest:
        raise KeyReused(
            "the idempotency key was used for another request: send a new key",
            operation=str(known.pk),
        )
    return known
