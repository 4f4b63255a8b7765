"""`access_table` and `visible_tables`: the only doors to tables. No view gets one in another way,
and whoever may not see a table does not learn that there is one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404

from controlplane.accounts.access_levels import ADMIN, GRANTED, OPERATOR, RANKS, VIEWER
from controlplane.accounts.roles import EffectiveRoles, cache_effective_roles, load_effective_roles
from controlplane.kept_sql import KeptQuery
from controlplane.tables.models import Table

_VISITED = "_sluice_tables"
_NOTES = "_sluice_notes"
_OF_SLUG: Final = KeptQuery[Table](lambda slug: Table.objects.filter(slug=slug), "the slug")
Caller = AbstractBaseUser | AnonymousUser


class Permission(StrEnum):
    VIEW = "view"
    OPERATE = "operate"
    """Write, cancel, run services that take no committed data away."""
    ADMINISTER = "administer"
    """Roll back, restore, delete; everywhere also register."""

    @property
    def role(self) -> str:
        """The least role that has it."""
        return _ROLES[self]


_ROLES = {
    Permission.VIEW: VIEWER,
    Permission.OPERATE: OPERATOR,
    Permission.ADMINISTER: ADMIN,
}


def may(user: Caller, permission: Permission, table: Table) -> bool:
    """Whether `user` may do this to `table`, by a role everywhere, in its namespace or on it."""
    return _has(load_effective_roles(user), permission, table)


def may_everywhere(user: Caller, permission: Permission) -> bool:
    """Whether `user` may do this to every table there is or will be."""
    return load_effective_roles(user).has_role_everywhere(permission.role)


def may_in_namespace(user: Caller, permission: Permission, namespace: str) -> bool:
    """Whether `user` may do this to every table that stands in `namespace` or will."""
    return _is_enough(load_effective_roles(user).get_namespace_role(namespace), permission)


def may_see_some(user: Caller) -> bool:
    """Whether there may be a table that `user` sees."""
    return load_effective_roles(user).is_somewhere


def may_somewhere(user: Caller, permission: Permission) -> bool:
    """Whether there may be a table to which `user` may do this."""
    reach = load_effective_roles(user)
    held = (*reach.everywhere, *reach.namespaces.values(), *reach.tables.values())
    return any(_is_enough(role, permission) for role in held)


def role_on(user: Caller, table: Table) -> str:
    """The greatest role of `user` on `table`; empty for none."""
    return load_effective_roles(user).get_table_role(table.namespace, table.pk)


def visible_tables(user: Caller, permission: Permission = Permission.VIEW) -> QuerySet[Table]:
    """The tables to which `user` may do this, by slug; every list of tables, and of what belongs to
    tables, is filtered by it. Asks for the roles at once, and for the tables when it is read.
    """
    reach = load_effective_roles(user)
    if reach.has_role_everywhere(permission.role):
        return Table.objects.all()
    enough = {role for role in GRANTED if _is_enough(role, permission)}
    namespaces = [name for name, role in reach.namespaces.items() if role in enough]
    keys = [key for key, role in reach.tables.items() if role in enough]
    return Table.objects.filter(Q(namespace__in=namespaces) | Q(pk__in=keys))


def access_table(user: Caller, slug: str, permission: Permission) -> Table:
    """The table, if `user` may do this to it.

    Raises Http404 for a table that there is not, or that `user` may not see, without a difference;
    PermissionDenied for one that `user` may see, and for everything where `user` may see nothing.
    """
    reach = load_effective_roles(user)
    if not reach.is_somewhere:
        raise PermissionDenied(f"this requires the {permission.role} role")
    table = visited_table(user, slug) or _OF_SLUG.first(slug)
    if table is None or not _has(reach, Permission.VIEW, table):
        raise Http404(f"table {slug} not found")
    if not _has(reach, permission, table):
        raise PermissionDenied(f"this requires the {permission.role} role")
    visited: dict[str, Table] | None = getattr(user, _VISITED, None)
    if visited is not None:
        visited[slug] = table
    return table


def begin_visit(user: Caller) -> None:
    """For the length of one request: the roles of this object are read once, and each table that it
    comes to.
    """
    cache_effective_roles(user)
    if isinstance(user, User):
        setattr(user, _VISITED, {})
        setattr(user, _NOTES, {})


def load_visit_notes(user: Caller) -> dict[str, Any]:
    """Return what else was read for this user object in the current request, for callers to read
    and extend. Outside of a request each call returns a new empty one.
    """
    notes: dict[str, Any] = getattr(user, _NOTES, {})
    return notes


def visited_table(user: Caller, slug: str) -> Table | None:
    """The table of this slug that `user` came to in the request at hand; None for none."""
    visited: dict[str, Table] = getattr(user, _VISITED, {})
    return visited.get(slug)


def _has(reach: EffectiveRoles, permission: Permission, table: Table) -> bool:
    return _is_enough(reach.get_table_role(table.namespace, table.pk), permission)


def _is_enough(role: str, permission: Permission) -> bool:
    return RANKS.get(role, 0) >= RANKS[permission.role]
