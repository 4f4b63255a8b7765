"""Who may do how much, and where: roles that hold everywhere, which are Django groups, and grants
in a namespace or on a table.

A viewer reads, an operator writes and looks after tables, an admin also does what takes data away;
each has all that the one before has. An auditor, who is one everywhere, reads as a viewer does, and
the audit of everything besides. A superuser is an admin everywhere.

Who comes with a token has of all that only what the token lets through (`limit_to_token`).
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
"""Within what an id of a user may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """All roles of one person, as one look at the database saw them."""

    everywhere: frozenset[str] = frozenset()
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """The greatest role in each namespace that one is granted in."""
    tables: Mapping[int, str] = field(default_factory=dict)
    """The greatest role on each table, by its primary key."""

    @property
    def is_somewhere(self) -> bool:
        """Whether there may be a table that this person sees."""
        return bool(self.everywhere or self.namespaces or self.tables)

    def covers_all(self, role: str) -> bool:
        """Whether this person may do everywhere what `role` may."""
        return RANKS[role] <= RANKS.get(greatest(*self.everywhere), 0)

    def role_in(self, namespace: str) -> str:
        """The greatest role that holds in all of a namespace; empty for none."""
        return greatest(*self.everywhere, self.namespaces.get(namespace, ""))

    def role_on(self, namespace: str, table_key: int) -> str:
        """The greatest role on a table that stands in `namespace`; empty for none."""
        return greatest(self.role_in(namespace), self.tables.get(table_key, ""))


NOWHERE = Reach()


def reach_of(user: AbstractBaseUser | AnonymousUser) -> Reach:
    """Where `user` may do what, now: one query, or none where `remember_reach` has asked for this
    object. Anonymous and inactive users reach nothing.
    """
    if not isinstance(user, User) or not user.is_active:
        return NOWHERE
    remembered = getattr(user, _REMEMBERED, None)
    return remembered if isinstance(remembered, Reach) else _read(user)


def remember_reach(user: AbstractBaseUser | AnonymousUser) -> None:
    """Ask the database once for all that this object is asked about from now on: for the length of
    a request, and of nothing that lasts longer.
    """
    if isinstance(user, User):
        setattr(user, _REMEMBERED, _read(user))


def limit_to_token(user: User, limits: Limits) -> None:
    """From now on this object may no more than the token with which it signed in."""
    setattr(user, _LIMITS, limits)


def limits_of(user: AbstractBaseUser | AnonymousUser) -> Limits | None:
    """The limits of the token that this object signed in with; None where it has signed in
    otherwise.
    """
    return getattr(user, _LIMITS, None)


def is_viewer(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may read everything."""
    return reach_of(user).covers_all(VIEWER)


def is_operator(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` is an operator everywhere."""
    return reach_of(user).covers_all(OPERATOR)


def is_admin(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` is an admin everywhere."""
    return reach_of(user).covers_all(ADMIN)


def is_auditor(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may read the audit of every table and person: auditors, and admins."""
    return bool(reach_of(user).everywhere & {AUDITOR, ADMIN})


def may_look_after_people(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may end what others sign in with: admins everywhere and auditors, by a token
    only if it may administer.
    """
    limits = limits_of(user)
    return is_auditor(user) and (limits is None or limits.scope == ADMINISTER)


def _read(user: User) -> Reach:
    limits = limits_of(user)
    reach = _held(user)
    return reach if limits is None else _limited(reach, limits)


def _limited(reach: Reach, limits: Limits) -> Reach:
    """What is left of `reach`; one query where the limits name places."""
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
    """An auditor is one everywhere only; in a place he reads as a viewer does."""
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
    """(role, namespace, table's primary key): both empty for a role that holds everywhere."""
    nowhere = Value("", output_field=CharField()), Value(0, output_field=BigIntegerField())
    own_groups = Group.objects.filter(user=user_key)
    everywhere = own_groups.filter(name__in=ROLES).values_list("name", *nowhere)
    grants = Grant.objects.filter(Q(user=user_key) | Q(group__in=own_groups)).order_by()
    granted = grants.values_list("role", "namespace", Coalesce("table_id", nowhere[1]))
    return everywhere.union(granted)


_HELD_ROLES: Final = KeptQuery[tuple[str, str, int]](_held_roles, _USER_MARK)
