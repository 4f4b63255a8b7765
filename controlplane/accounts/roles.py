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

from controlplane.accounts.access_levels import (
    ADMIN,
    ADMINISTER,
    AUDITOR,
    OPERATOR,
    RANKS,
    ROLES,
    VIEWER,
    TokenLimits,
    get_highest_role,
)
from controlplane.accounts.models import Grant
from controlplane.kept_sql import KeptQuery

__all__ = [
    "ADMIN",
    "AUDITOR",
    "NOWHERE",
    "OPERATOR",
    "VIEWER",
    "EffectiveRoles",
    "cache_effective_roles",
    "can_manage_users",
    "get_token_limits",
    "is_admin",
    "is_auditor",
    "is_operator",
    "is_viewer",
    "limit_to_token",
    "load_effective_roles",
]

_REMEMBERED = "_sluice_reach"
_LIMITS = "_sluice_limits"
_USER_MARK: Final = 2_000_000_001
"""A placeholder within the range of user ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRoles:
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

    def has_role_everywhere(self, role: str) -> bool:
        """Return whether the user has `role`, or a higher one, everywhere."""
        return RANKS[role] <= RANKS.get(get_highest_role(*self.everywhere), 0)

    def get_namespace_role(self, namespace: str) -> str:
        """Return the highest role in the whole namespace; empty for none."""
        return get_highest_role(*self.everywhere, self.namespaces.get(namespace, ""))

    def get_table_role(self, namespace: str, table_key: int) -> str:
        """Return the highest role on a table of `namespace`; empty for none."""
        return get_highest_role(self.get_namespace_role(namespace), self.tables.get(table_key, ""))


NOWHERE = EffectiveRoles()


def load_effective_roles(user: AbstractBaseUser | AnonymousUser) -> EffectiveRoles:
    """Return the current roles of the user.

    One query, or none after `cache_effective_roles`. Anonymous and inactive users have no roles.
    """
    if not isinstance(user, User) or not user.is_active:
        return NOWHERE
    remembered = getattr(user, _REMEMBERED, None)
    return remembered if isinstance(remembered, EffectiveRoles) else _load_roles(user)


def cache_effective_roles(user: AbstractBaseUser | AnonymousUser) -> None:
    """Load the roles of this user object once and keep them on it. Only for objects that do not
    outlive a request.
    """
    if isinstance(user, User):
        setattr(user, _REMEMBERED, _load_roles(user))


def limit_to_token(user: User, limits: TokenLimits) -> None:
    """Limit the roles of this user object to those of the token that it signed in with."""
    setattr(user, _LIMITS, limits)


def get_token_limits(user: AbstractBaseUser | AnonymousUser) -> TokenLimits | None:
    """Return the limits of the token that the user signed in with; None after another login."""
    return getattr(user, _LIMITS, None)


def is_viewer(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user is a viewer everywhere."""
    return load_effective_roles(user).has_role_everywhere(VIEWER)


def is_operator(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user is an operator everywhere."""
    return load_effective_roles(user).has_role_everywhere(OPERATOR)


def is_admin(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user is an admin everywhere."""
    return load_effective_roles(user).has_role_everywhere(ADMIN)


def is_auditor(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user may read the whole audit log: auditors and admins everywhere."""
    return bool(load_effective_roles(user).everywhere & {AUDITOR, ADMIN})


def can_manage_users(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user may revoke the tokens of others: auditors and admins everywhere, with
    a token only if its scope is administer.
    """
    limits = get_token_limits(user)
    return is_auditor(user) and (limits is None or limits.scope == ADMINISTER)


def _load_roles(user: User) -> EffectiveRoles:
    limits = get_token_limits(user)
    reach = _load_own_roles(user)
    return reach if limits is None else _limit_roles(reach, limits)


def _limit_roles(reach: EffectiveRoles, limits: TokenLimits) -> EffectiveRoles:
    """Return the roles that the limits permit. One query if the limits contain places."""
    if limits.has_places:
        return _limit_to_places(reach, limits)
    if limits.scope == ADMINISTER:
        return reach
    reads_audit = {AUDITOR} if reach.everywhere & {AUDITOR, ADMIN} else set()
    return EffectiveRoles(
        everywhere=frozenset({limits.limit_role(role) for role in reach.everywhere} | reads_audit),
        namespaces={name: limits.limit_role(role) for name, role in reach.namespaces.items()},
        tables={key: limits.limit_role(role) for key, role in reach.tables.items()},
    )


def _limit_to_places(reach: EffectiveRoles, limits: TokenLimits) -> EffectiveRoles:
    in_namespaces = {name: reach.get_namespace_role(name) for name in limits.namespaces}
    named = Q(pk__in=limits.table_keys)
    held = Q(pk__in=list(reach.tables), namespace__in=limits.namespaces)
    tables = apps.get_model("tables", "Table").objects.filter(named | held)
    on_tables = {
        key: reach.get_table_role(namespace, key)
        for key, namespace in tables.values_list("pk", "namespace")
    }
    return EffectiveRoles(
        namespaces={
            name: _limit_role(limits, role) for name, role in in_namespaces.items() if role
        },
        tables={key: _limit_role(limits, role) for key, role in on_tables.items() if role},
    )


def _limit_role(limits: TokenLimits, role: str) -> str:
    """Return the role that the limits permit in a place, where an auditor is a viewer."""
    return VIEWER if role == AUDITOR else limits.limit_role(role)


def _load_own_roles(user: User) -> EffectiveRoles:
    if not user.is_active:
        return NOWHERE
    if user.is_superuser:
        return EffectiveRoles(everywhere=frozenset({VIEWER, OPERATOR, ADMIN}))
    everywhere: set[str] = set()
    namespaces: dict[str, str] = {}
    tables: dict[int, str] = {}
    for role, namespace, table_key in _OWN_ROLES.rows(user.pk):
        if namespace:
            namespaces[namespace] = get_highest_role(role, namespaces.get(namespace, ""))
        elif table_key:
            tables[table_key] = get_highest_role(role, tables.get(table_key, ""))
        else:
            everywhere.add(role)
    return EffectiveRoles(everywhere=frozenset(everywhere), namespaces=namespaces, tables=tables)


def _query_own_roles(user_key: int) -> QuerySet[Any, Any]:
    """Return (role, namespace, primary key of the table); a global role has neither place."""
    nowhere = Value("", output_field=CharField()), Value(0, output_field=BigIntegerField())
    own_groups = Group.objects.filter(user=user_key)
    everywhere = own_groups.filter(name__in=ROLES).values_list("name", *nowhere)
    grants = Grant.objects.filter(Q(user=user_key) | Q(group__in=own_groups)).order_by()
    granted = grants.values_list("role", "namespace", Coalesce("table_id", nowhere[1]))
    return everywhere.union(granted)


_OWN_ROLES: Final = KeptQuery[tuple[str, str, int]](_query_own_roles, _USER_MARK)
