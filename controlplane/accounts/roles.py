"""Effective roles of a user: global roles, which are Django groups, and grants in a namespace or on
a table.

A viewer reads, an operator writes and maintains tables, an admin also deletes data; each role
includes the one before it. An auditor has the role everywhere, reads as a viewer does, and also
reads the whole audit log. A superuser is an admin everywhere.

A user who signed in with a token has only the roles that the token permits (`limit_to_token`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.apps import apps
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from django.db.models import BigIntegerField, CharField, Q, QuerySet, Value
from django.db.models.functions import Coalesce

from controlplane.accounts.models import Grant
from controlplane.accounts.role_names import (
    ADMIN,
    AUDITOR,
    OPERATOR,
    RANKS,
    ROLES,
    VIEWER,
    greatest,
)
from controlplane.accounts.scopes import ADMINISTER, Limits
from controlplane.kept_sql import KeptQuery

__all__ = [
    "ADMIN",
    "AUDITOR",
    "NOWHERE",
    "OPERATOR",
    "VIEWER",
    "Reach",
    "is_admin",
    "is_auditor",
    "is_operator",
    "is_viewer",
    "limit_to_token",
    "limits_of",
    "may_look_after_people",
    "reach_of",
    "remember_reach",
]

_REMEMBERED = "_sluice_reach"
_LIMITS = "_sluice_limits"
_USER_MARK: Final = 2_000_000_001
"""A placeholder within the range of user ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """All roles of a user, as one query read them."""

    everywhere: frozenset[str] = frozenset()
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """The highest granted role by namespace."""
    tables: Mapping[int, str] = field(default_factory=dict)
    """The highest granted role by primary key of the table."""

    @property
    def is_somewhere(self) -> bool:
        """True if the user may see any table."""
        return bool(self.everywhere or self.namespaces or self.tables)

    def covers_all(self, role: str) -> bool:
        """Return whether the user has `role`, or a higher one, everywhere."""
        return RANKS[role] <= RANKS.get(greatest(*self.everywhere), 0)

    def role_in(self, namespace: str) -> str:
        """Return the highest role in the whole namespace; empty for none."""
        return greatest(*self.everywhere, self.namespaces.get(namespace, ""))

    def role_on(self, namespace: str, table_key: int) -> str:
        """Return the highest role on a table of `namespace`; empty for none."""
        return greatest(self.role_in(namespace), self.tables.get(table_key, ""))


NOWHERE = Reach()


def reach_of(user: AbstractBaseUser | AnonymousUser) -> Reach:
    """Return the current roles of the user.

    One query, or none after `cache_effective_roles`. Anonymous and inactive users have no roles.
    """
    if not isinstance(user, User) or not user.is_active:
        return NOWHERE
    remembered = getattr(user, _REMEMBERED, None)
    return remembered if isinstance(remembered, Reach) else _read(user)


def remember_reach(user: AbstractBaseUser | AnonymousUser) -> None:
    """Load the roles of this user object once and keep them on it. Only for objects that do not
    outlive a request.
    """
    if isinstance(user, User):
        setattr(user, _REMEMBERED, _read(user))


def limit_to_token(user: User, limits: Limits) -> None:
    """Limit the roles of this user object to those of the token that it signed in with."""
    setattr(user, _LIMITS, limits)


def limits_of(user: AbstractBaseUser | AnonymousUser) -> Limits | None:
    """Return the limits of the token that the user signed in with; None after another login."""
    return getattr(user, _LIMITS, None)


def is_viewer(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user is a viewer everywhere."""
    return reach_of(user).covers_all(VIEWER)


def is_operator(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user is an operator everywhere."""
    return reach_of(user).covers_all(OPERATOR)


def is_admin(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user is an admin everywhere."""
    return reach_of(user).covers_all(ADMIN)


def is_auditor(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user may read the whole audit log: auditors and admins everywhere."""
    return bool(reach_of(user).everywhere & {AUDITOR, ADMIN})


def may_look_after_people(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user may revoke the tokens of others: auditors and admins everywhere, with
    a token only if its scope is administer.
    """
    limits = limits_of(user)
    return is_auditor(user) and (limits is None or limits.scope == ADMINISTER)


def _read(user: User) -> Reach:
    limits = limits_of(user)
    reach = _held(user)
    return reach if limits is None else _limited(reach, limits)


def _limited(reach: Reach, limits: Limits) -> Reach:
    """Return the roles that the limits permit. One query if the limits contain places."""
    if limits.has_places:
        return _limited_to_places(reach, limits)
    if limits.scope == ADMINISTER:
        return reach
    reads_audit = {AUDITOR} if reach.everywhere & {AUDITOR, ADMIN} else set()
    return Reach(
        everywhere=frozenset({limits.lessened(role) for role in reach.everywhere} | reads_audit),
        namespaces={name: limits.lessened(role) for name, role in reach.namespaces.items()},
        tables={key: limits.lessened(role) for key, role in reach.tables.items()},
    )


def _limited_to_places(reach: Reach, limits: Limits) -> Reach:
    in_namespaces = {name: reach.role_in(name) for name in limits.namespaces}
    named = Q(pk__in=limits.table_keys)
    held = Q(pk__in=list(reach.tables), namespace__in=limits.namespaces)
    tables = apps.get_model("tables", "Table").objects.filter(named | held)
    on_tables = {
        key: reach.role_on(namespace, key)
        for key, namespace in tables.values_list("pk", "namespace")
    }
    return Reach(
        namespaces={name: _granted(limits, role) for name, role in in_namespaces.items() if role},
        tables={key: _granted(limits, role) for key, role in on_tables.items() if role},
    )


def _granted(limits: Limits, role: str) -> str:
    """Return the role that the limits permit in a place, where an auditor is a viewer."""
    return VIEWER if role == AUDITOR else limits.lessened(role)


def _held(user: User) -> Reach:
    if not user.is_active:
        return NOWHERE
    if user.is_superuser:
        return Reach(everywhere=frozenset({VIEWER, OPERATOR, ADMIN}))
    everywhere: set[str] = set()
    namespaces: dict[str, str] = {}
    tables: dict[int, str] = {}
    for role, namespace, table_key in _HELD_ROLES.rows(user.pk):
        if namespace:
            namespaces[namespace] = greatest(role, namespaces.get(namespace, ""))
        elif table_key:
            tables[table_key] = greatest(role, tables.get(table_key, ""))
        else:
            everywhere.add(role)
    return Reach(everywhere=frozenset(everywhere), namespaces=namespaces, tables=tables)


def _held_roles(user_key: int) -> QuerySet[Any, Any]:
    """Return (role, namespace, primary key of the table); a global role has neither place."""
    nowhere = Value("", output_field=CharField()), Value(0, output_field=BigIntegerField())
    own_groups = Group.objects.filter(user=user_key)
    everywhere = own_groups.filter(name__in=ROLES).values_list("name", *nowhere)
    grants = Grant.objects.filter(Q(user=user_key) | Q(group__in=own_groups)).order_by()
    granted = grants.values_list("role", "namespace", Coalesce("table_id", nowhere[1]))
    return everywhere.union(granted)


_HELD_ROLES: Final = KeptQuery[tuple[str, str, int]](_held_roles, _USER_MARK)
