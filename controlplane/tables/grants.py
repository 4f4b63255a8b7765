"""Giving and taking roles in a namespace or on a table. Admins of the namespace do that, and admins
everywhere; whoever has a shell of this machine may give anything. All of it is in the audit.

Nobody gives more than he has: an admin has every role that can be granted where he is one.
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

from controlplane.accounts.access_levels import ADMIN, GRANTED, ROLES
from controlplane.accounts.models import Grant
from controlplane.accounts.roles import is_auditor, load_effective_roles
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.tables.access import Caller, Permission, access_table, may_in_namespace
from controlplane.tables.models import Table
from controlplane.tables.names import check_namespace

SUPERUSER = "superuser"
"""What is said of a user who is an admin without the role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """Who has which role, and where."""

    id: int
    user: str
    """Empty where a group has it."""
    group: str
    role: str
    namespace: str
    """Empty for a role on a table."""
    table: str
    """The table's slug."""
    granted_at: datetime
    granted_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """A role for one user or one group, in one namespace or on one table; what is empty is not
    meant.
    """

    role: str
    user: str = ""
    group: str = ""
    namespace: str = ""
    table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granter:
    """Who gives or takes: a person, or a shell."""

    user: User | None
    name: str
    """For the audit."""

    @classmethod
    def person(cls, user: User) -> Granter:
        return cls(user=user, name=user.get_username())


def may_grant_somewhere(user: Caller) -> bool:
    """Whether there is a namespace in which `user` may give roles."""
    reach = load_effective_roles(user)
    return reach.has_role_everywhere(ADMIN) or ADMIN in reach.namespaces.values()


def grants_shown_to(user: User) -> list[GrantRow]:
    """To auditors and admins everywhere all, to admins of namespaces those that hold there, to
    others none; by place, then by who has it. One query besides the roles of `user`.
    """
    return [_row(grant) for grant in _shown_to(user)]


def grant_shown_to(user: User, grant_id: int) -> GrantRow:
    """The grant of this key. Raises Http404, alike for one that there is not and for one that
    `user` is not shown.
    """
    grant = _shown_to(user).filter(pk=grant_id).first()
    if grant is None:
        raise Http404(f"grant {grant_id} not found")
    return _row(grant)


@dataclass(frozen=True, slots=True, kw_only=True)
class EverywhereRow:
    """A user with roles that hold everywhere."""

    user: str
    roles: list[str]
    is_active: bool


def everywhere_shown_to(user: User) -> list[EverywhereRow]:
    """To auditors and admins everywhere all users who have such a role, by name; to others none.
    Two queries besides the roles of `user`.
    """
    if not is_auditor(user):
        return []
    of_role = Q(groups__name__in=ROLES) | Q(is_superuser=True)
    holders = User.objects.filter(of_role).distinct().order_by("username")
    return [
        EverywhereRow(
            user=holder.get_username(),
            roles=[group.name for group in holder.groups.all() if group.name in ROLES]
            or [SUPERUSER],
            is_active=holder.is_active,
        )
        for holder in holders.prefetch_related("groups")
    ]


def all_grants() -> list[GrantRow]:
    """For whoever has a shell."""
    return [_row(grant) for grant in _ordered()]


def do_grant(wanted: GrantRequest, *, by: Granter, reason: str = "") -> GrantRow:
    """Give the role, in place of the one that the same holder had at the same place.

    Raises Http404 for a table that the granter may not see, PermissionDenied where he is no admin
    of the namespace; InvalidRequest for a role, holder or place that there is not, and for more or
    fewer than one holder and one place.
    """
    if wanted.role not in GRANTED:
        raise InvalidRequest("this role cannot be granted", role=wanted.role[:32], known=GRANTED)
    if bool(wanted.namespace) == bool(wanted.table):
        raise InvalidRequest("a role must be granted in one namespace or on one table")
    if bool(wanted.user) == bool(wanted.group):
        raise InvalidRequest("a role must be granted to one user or to one group")
    table = granted_table(wanted.table, by) if wanted.table else None
    check_grants_in(table.namespace if table is not None else wanted.namespace, by)
    if table is None:
        check_namespace(wanted.namespace)
    with transaction.atomic():
        key = {"table": table, "namespace": wanted.namespace, **_holder(wanted)}
        before = _ordered().filter(**key).select_for_update(of=("self",)).first()
        given, _ = Grant.objects.update_or_create(
            **key,
            defaults={
                "role": wanted.role,
                "granted_by": by.name[:150],
                "granted_at": timezone.now(),
            },
        )
        row = _row(given)
        _record("grant.give", row, by, reason, role_before=before.role if before else "")
    return row


def do_revoke(grant_id: int, *, by: Granter, reason: str = "") -> GrantRow:
    """Take the role away; what was taken.

    Raises Http404 for a grant that there is not, or that the one who takes is not shown;
    PermissionDenied for whoever is shown it and is no admin of its namespace.
    """
    with transaction.atomic():
        grant = _to_take(grant_id, by)
        row = _row(grant)
        grant.delete()
        _record("grant.take", row, by, reason)
    return row


def grant_to_take(grant_id: int, *, by: Granter) -> GrantRow:
    """Return what `do_revoke` would take. Raises what it raises."""
    with transaction.atomic():
        return _row(_to_take(grant_id, by))


def _to_take(grant_id: int, by: Granter) -> Grant:
    shown = _ordered() if by.user is None else _shown_to(by.user)
    grant = shown.select_for_update(of=("self",)).filter(pk=grant_id).first()
    if grant is None:
        raise Http404(f"grant {grant_id} not found")
    check_grants_in(grant.table.namespace if grant.table is not None else grant.namespace, by)
    return grant


def check_grants_in(namespace: str, by: Granter) -> None:
    """Refuse, as PermissionDenied, whoever is no admin of the namespace."""
    if by.user is not None and not may_in_namespace(by.user, Permission.ADMINISTER, namespace):
        raise PermissionDenied(f"this requires the {ADMIN} role in the namespace {namespace[:64]}")


def granted_table(slug: str, by: Granter) -> Table:
    """The table of this slug. Raises Http404 for one that the granter may not see, InvalidRequest
    for one that a shell names and that there is not.
    """
    if by.user is not None:
        return access_table(by.user, slug, Permission.VIEW)
    table = Table.objects.filter(slug=slug).first()
    if table is None:
        raise InvalidRequest("table not found", table=slug[:80])
    return table


def _holder(wanted: GrantRequest) -> dict[str, Any]:
    if wanted.user:
        user = User.objects.filter(username=wanted.user).first()
        if user is None:
            raise InvalidRequest("user not found", user=wanted.user[:150])
        return {"user": user, "group": None}
    if wanted.group in ROLES:
        raise InvalidRequest(
            "this group already has its role everywhere: choose another group", group=wanted.group
        )
    group = Group.objects.filter(name=wanted.group).first()
    if group is None:
        raise InvalidRequest("user group not found", group=wanted.group[:150])
    return {"user": None, "group": group}


def _ordered() -> QuerySet[Grant]:
    rows = Grant.objects.select_related("user", "group", "table")
    joined = ("table__slug", "user__username", "group__name")
    # PostgreSQL sorts nulls last by default, and SQLite first.
    return rows.order_by("namespace", *(F(name).asc(nulls_first=True) for name in joined))


def _shown_to(user: User) -> QuerySet[Grant]:
    if is_auditor(user):
        return _ordered()
    held = load_effective_roles(user).namespaces
    own = [namespace for namespace, role in held.items() if role == ADMIN]
    return _ordered().filter(Q(namespace__in=own) | Q(table__namespace__in=own))


def _row(grant: Grant) -> GrantRow:
    return GrantRow(
        id=grant.pk,
        user=grant.user.get_username() if grant.user is not None else "",
        group=grant.group.name if grant.group is not None else "",
        role=grant.role,
        namespace=grant.namespace,
        table=grant.table.slug if grant.table is not None else "",
        granted_at=grant.granted_at,
        granted_by=grant.granted_by,
    )


def _record(what: str, row: GrantRow, by: Granter, reason: str, **more: str) -> None:
    details = {
        "grant": row.id,
        "user": row.user,
        "group": row.group,
        "role": row.role,
        "namespace": row.namespace,
        "table": row.table,
        **more,
    }
    subject = row.table or row.namespace
    do_record(
        who=by.name, what=what, subject=subject, result="done", reason=reason, details=details
    )
