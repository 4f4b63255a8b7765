"""Giving and taking the right to read rows: of one table, of all tables in a namespace, or of every
table. Admins of the namespace do that, and admins everywhere; whoever has a shell of this machine
may give anything. All of it is in the audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.http import Http404
from django.utils import timezone

from controlplane.accounts.access_levels import ADMIN
from controlplane.accounts.roles import is_admin, is_auditor, load_effective_roles
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.tables.grants import Granter, check_grants_in, granted_table
from controlplane.tables.models import ROW_RIGHTS, RowGrant
from controlplane.tables.names import check_namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGrantRow:
    """Who reads rows, and where."""

    id: int
    user: str
    """Empty where a group has it."""
    group: str
    right: str
    """rows, or masked: rows with their masked columns."""
    namespace: str
    """Empty for one table, and for everywhere."""
    table: str
    """The table's slug; empty, with the namespace, for everywhere."""
    granted_at: datetime
    granted_by: str

    @property
    def place(self) -> str:
        """`table trips`, `namespace sales` or `everywhere`."""
        if self.table:
            return f"table {self.table}"
        return f"namespace {self.namespace}" if self.namespace else "everywhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGrantRequest:
    """The right for one user or one group, at one of three places; what is empty is not meant."""

    right: str
    user: str = ""
    group: str = ""
    """Of people, or one whose members have a role everywhere."""
    namespace: str = ""
    table: str = ""
    everywhere: bool = False


def row_grants_shown_to(user: User) -> list[RowGrantRow]:
    """To auditors and admins everywhere all, to admins of namespaces those that hold there, to
    others none; by place, then by who has it. One query besides the roles of `user`.
    """
    return [_row(grant) for grant in _shown_to(user)]


def row_grant_shown_to(user: User, grant_id: int) -> RowGrantRow:
    """The grant of this key. Raises Http404, alike for one that there is not and for one that
    `user` is not shown.
    """
    grant = _shown_to(user).filter(pk=grant_id).first()
    if grant is None:
        raise Http404(f"row access {grant_id} not found")
    return _row(grant)


def all_row_grants() -> list[RowGrantRow]:
    """For whoever has a shell."""
    return [_row(grant) for grant in _ordered()]


def do_give_rows(wanted: RowGrantRequest, *, by: Granter, reason: str = "") -> RowGrantRow:
    """Give the right, in place of the one that the same holder had at the same place.

    Raises Http404 for a table that the granter may not see, PermissionDenied where he is no admin
    of the place; InvalidRequest for a right, holder or place that there is not, and for more or
    fewer than one holder and one place.
    """
    if wanted.right not in ROW_RIGHTS:
        raise InvalidRequest("invalid right", right=wanted.right[:32], known=ROW_RIGHTS)
    if sum(map(bool, (wanted.namespace, wanted.table, wanted.everywhere))) != 1:
        raise InvalidRequest(
            "row access must be granted on one table, in one namespace or everywhere"
        )
    if bool(wanted.user) == bool(wanted.group):
        raise InvalidRequest("row access must be granted to one user or to one group")
    table = granted_table(wanted.table, by) if wanted.table else None
    _check_place(by, table.namespace if table is not None else wanted.namespace)
    if wanted.namespace:
        check_namespace(wanted.namespace)
    with transaction.atomic():
        key = {"table": table, "namespace": wanted.namespace, **_holder(wanted)}
        before = _ordered().filter(**key).select_for_update(of=("self",)).first()
        given, _ = RowGrant.objects.update_or_create(
            **key,
            defaults={
                "right": wanted.right,
                "granted_by": by.name[:150],
                "granted_at": timezone.now(),
            },
        )
        row = _row(given)
        _record("rows.give", row, by, reason, right_before=before.right if before else "")
    return row


def do_take_rows(grant_id: int, *, by: Granter, reason: str = "") -> RowGrantRow:
    """Take the right away; what was taken.

    Raises Http404 for what there is not, or is not shown to the one who takes; PermissionDenied for
    whoever is shown it and is no admin of its place.
    """
    with transaction.atomic():
        grant = _to_take(grant_id, by)
        row = _row(grant)
        grant.delete()
        _record("rows.take", row, by, reason)
    return row


def row_grant_to_take(grant_id: int, *, by: Granter) -> RowGrantRow:
    """Return what `do_take_rows` would take. Raises what it raises."""
    with transaction.atomic():
        return _row(_to_take(grant_id, by))


def _to_take(grant_id: int, by: Granter) -> RowGrant:
    shown = _ordered() if by.user is None else _shown_to(by.user)
    grant = shown.select_for_update(of=("self",)).filter(pk=grant_id).first()
    if grant is None:
        raise Http404(f"row access {grant_id} not found")
    _check_place(by, grant.table.namespace if grant.table is not None else grant.namespace)
    return grant


def _check_place(by: Granter, namespace: str) -> None:
    """Empty is everywhere."""
    if namespace:
        check_grants_in(namespace, by)
    elif by.user is not None and not is_admin(by.user):
        raise PermissionDenied(f"this requires the {ADMIN} role everywhere")


def _holder(wanted: RowGrantRequest) -> dict[str, Any]:
    if wanted.user:
        user = User.objects.filter(username=wanted.user).first()
        if user is None:
            raise InvalidRequest("user not found", user=wanted.user[:150])
        return {"user": user, "group": None}
    group = Group.objects.filter(name=wanted.group).first()
    if group is None:
        raise InvalidRequest("user group not found", group=wanted.group[:150])
    return {"user": None, "group": group}


def _ordered() -> QuerySet[RowGrant]:
    rows = RowGrant.objects.select_related("user", "group", "table")
    joined = ("table__slug", "user__username", "group__name")
    # PostgreSQL sorts nulls last by default, and SQLite first.
    return rows.order_by("namespace", *(F(name).asc(nulls_first=True) for name in joined))


def _shown_to(user: User) -> QuerySet[RowGrant]:
    if is_auditor(user):
        return _ordered()
    held = load_effective_roles(user).namespaces
    own = [namespace for namespace, role in held.items() if role == ADMIN]
    return _ordered().filter(Q(namespace__in=own) | Q(table__namespace__in=own))


def _row(grant: RowGrant) -> RowGrantRow:
    return RowGrantRow(
        id=grant.pk,
        user=grant.user.get_username() if grant.user is not None else "",
        group=grant.group.name if grant.group is not None else "",
        right=grant.right,
        namespace=grant.namespace,
        table=grant.table.slug if grant.table is not None else "",
        granted_at=grant.granted_at,
        granted_by=grant.granted_by,
    )


def _record(what: str, row: RowGrantRow, by: Granter, reason: str, **more: str) -> None:
    details = {
        "grant": row.id,
        "user": row.user,
        "group": row.group,
        "right": row.right,
        "namespace": row.namespace,
        "table": row.table,
        **more,
    }
    subject = row.table or row.namespace or "everywhere"
    do_record(
        who=by.name, what=what, subject=subject, result="done", reason=reason, details=details
    )
