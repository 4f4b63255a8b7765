"""Who may do how much, and where: roles that hold everywhere, which are Django groups, and grants
in a namespace or on a table.

A viewer reads, an operator writes and looks after tables, an admin also does what takes data away;
each has all that the one before has. An auditor, who is one everywhere, reads as a viewer does, and
the audit of everything besides. A superuser is an admin everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from django.db.models import BigIntegerField, CharField, Q, Value
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
    "reach_of",
    "remember_reach",
]

_REMEMBERED = "_sluice_reach"


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


def _read(user: User) -> Reach:
    if not user.is_active:
        return NOWHERE
    if user.is_superuser:
        return Reach(everywhere=frozenset({VIEWER, OPERATOR, ADMIN}))
    everywhere: set[str] = set()
    namespaces: dict[str, str] = {}
    tables: dict[int, str] = {}
    for role, namespace, table_key in _held_roles(user):
        if namespace:
            namespaces[namespace] = greatest(role, namespaces.get(namespace, ""))
        elif table_key:
            tables[table_key] = greatest(role, tables.get(table_key, ""))
        else:
            everywhere.add(role)
    return Reach(everywhere=frozenset(everywhere), namespaces=namespaces, tables=tables)


def _held_roles(user: User) -> list[tuple[str, str, int]]:
    """(role, namespace, table's primary key): both empty for a role that holds everywhere."""
    nowhere = Value("", output_field=CharField()), Value(0, output_field=BigIntegerField())
    own_groups = Group.objects.filter(user=user)
    everywhere = own_groups.filter(name__in=ROLES).values_list("name", *nowhere)
    grants = Grant.objects.filter(Q(user=user) | Q(group__in=own_groups)).order_by()
    granted = grants.values_list("role", "namespace", Coalesce("table_id", nowhere[1]))
    return list(everywhere.union(granted))
