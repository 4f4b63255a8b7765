"""Which actions need a second approver, and where: on a table, in a namespace, or everywhere. Off
until an admin of that place says otherwise.

What is said of a wide place holds in every narrower one: an admin of one table takes no rule of its
namespace away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet

from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.models import ApprovalRule
from controlplane.operations.permissions import service_kinds
from controlplane.tables.models import Table
from controlplane.tables.scopes import Scope, ScopeKind, may_administer

ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRuleRow:
    action: str
    title: str
    needs_approval: bool
    """Here, by the rule of this place or of a wider one."""
    sources: list[ScopeKind]
    """The places whose rules say so, the widest first."""
    is_set_here: bool
    set_by: str
    """Who set it here; empty for nobody."""
    set_at: datetime | None


@cache
def approval_actions() -> Mapping[str, str]:
    """Every action that may need a second approver, with its title: what takes committed data away
    by a plan that was looked at.
    """
    services = {kind.name: kind.title for kind in service_kinds() if kind.is_destructive}
    return {ROLLBACK: "Roll back", **services}


def action_named(kind: str, service: str) -> str:
    """What rules call an operation of this kind, which runs this service or none."""
    return service or kind


def is_approval_needed(table: Table, action: str) -> bool:
    """Whether somebody else has to approve of it before it runs. One query."""
    return _rules_of(Scope(table=table)).filter(action=action).exists()


def rule_rows(scope: Scope) -> list[ApprovalRuleRow]:
    """Every action, as it is there. One query."""
    rules = list(_rules_of(scope))
    return [_row(action, title, rules, scope) for action, title in approval_actions().items()]


def do_set_rule(
    action: str, needs_approval: bool, *, scope: Scope, by: User, reason: str
) -> ApprovalRuleRow:
    """From the next request on; what awaits approval already goes on awaiting it.

    Raises PermissionDenied; InvalidRequest for an unknown action, and for no reason or a long one.
    """
    if not may_administer(by, scope):
        raise PermissionDenied("this requires the admin role")
    if action not in approval_actions():
        raise InvalidRequest(
            "this action cannot require approval",
            action=action[:32],
            known=sorted(approval_actions()),
        )
    if not reason.strip() or len(reason) > REASON_CHARS_MAX:
        raise InvalidRequest(f"a reason of up to {REASON_CHARS_MAX} characters is required")
    place = {"action": action, "table": scope.table, "namespace": scope.namespace}
    with transaction.atomic():
        if needs_approval:
            ApprovalRule.objects.get_or_create(**place, defaults={"set_by": by.get_username()})
        else:
            ApprovalRule.objects.filter(**place).delete()
        do_record(
            who=by.get_username(),
            what="approval.rule",
            subject=str(scope),
            result="done",
            reason=reason.strip(),
            details={"action": action, "needs_approval": needs_approval, "scope": scope.kind},
        )
    return next(row for row in rule_rows(scope) if row.action == action)


def _rules_of(scope: Scope) -> QuerySet[ApprovalRule]:
    """Those that hold there, of this place and of wider ones."""
    namespace = scope.table.namespace if scope.table is not None else scope.namespace
    holding = Q(table__isnull=True, namespace__in=["", namespace])
    if scope.table is not None:
        holding |= Q(table=scope.table)
    return ApprovalRule.objects.filter(holding)


def _row(action: str, title: str, rules: list[ApprovalRule], scope: Scope) -> ApprovalRuleRow:
    holding = {_kind(rule): rule for rule in rules if rule.action == action}
    own = holding.get(scope.kind)
    return ApprovalRuleRow(
        action=action,
        title=title,
        needs_approval=bool(holding),
        sources=[kind for kind in _WIDEST_FIRST if kind in holding],
        is_set_here=own is not None,
        set_by=own.set_by if own is not None else "",
        set_at=own.set_at if own is not None else None,
    )


def _kind(rule: ApprovalRule) -> ScopeKind:
    if rule.table_id is not None:
        return "table"
    return "namespace" if rule.namespace else "everywhere"


_WIDEST_FIRST: tuple[ScopeKind, ...] = ("everywhere", "namespace", "table")
