"""Users and groups as admins and auditors see them, with the rights of each and their origin."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import Group, User
from django.db.models import Count, F, Q, QuerySet
from django.http import Http404

from controlplane.accounts.access_levels import ADMIN, ROLES
from controlplane.accounts.models import Grant
from controlplane.tables.grants import SUPERUSER
from controlplane.tables.models import RowGrant

LISTED_MAX = 500
PASSWORD = "password"  # noqa: S105 - a way to sign in
NOTHING_YET = "nothing yet"
EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """A user of this node."""

    id: int
    name: str
    """The user name, as in logins and in the audit log."""
    email: str
    is_active: bool
    roles: list[str]
    """Those that hold everywhere."""
    groups: list[str]
    """User groups, without the groups of roles."""
    signs_in_by: str
    """The address of a provider; password; or nothing yet."""
    tokens: int
    joined_at: datetime
    last_login: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RightRow:
    """A right of a user, and its origin."""

    right: str
    """A role; or `rows` or `masked` for reading rows, and masked columns of them."""
    place: str
    """everywhere, `namespace sales` or `table trips`"""
    by_group: str
    """The user group with the right; empty for the user's own right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonDetail:
    person: PersonRow
    rights: list[RightRow]
    """By place, global rights first. They do not apply while the user is deactivated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleGroup:
    """A user group."""

    id: int
    name: str
    members: list[str]
    rights: list[RightRow]


def list_users(search: str = "", *, after: str = "") -> list[PersonRow]:
    """List users whose name or e-mail address contains `search`, by name, at most `LISTED_MAX` of
    those after the name `after`. Two queries.
    """
    users = _search_users(search).order_by("username")
    if after:
        users = users.filter(username__gt=after)
    return [_person(user) for user in _annotate_users(users)[:LISTED_MAX]]


def count_users(search: str = "") -> int:
    """Return how many users have `search` in their name or e-mail address. One query."""
    return _search_users(search).count()


def _search_users(search: str) -> QuerySet[User]:
    if not search:
        return User.objects.all()
    return User.objects.filter(Q(username__icontains=search) | Q(email__icontains=search))


def get_user_detail(username: str) -> PersonDetail:
    """Return a user with all rights. Raises Http404 for an unknown user. Four queries."""
    user = _annotate_users(User.objects.filter(username=username)).first()
    if user is None:
        raise Http404(f"user {username[:150]} not found")
    return PersonDetail(person=_person(user), rights=_list_rights(user))


def get_user_row(user: User) -> PersonRow:
    """Return the current row of a user. Two queries."""
    return _person(_annotate_users(User.objects.filter(pk=user.pk)).get())


def get_user_name(user_key: int) -> str:
    """Return the name of a user. Raises Http404 for an unknown user."""
    name = User.objects.filter(pk=user_key).values_list("username", flat=True).first()
    if name is None:
        raise Http404(f"user {user_key} not found")
    return name


def list_groups() -> list[PeopleGroup]:
    """List all user groups by name. Four queries."""
    return _group_rows(Group.objects.all())


def get_group_row(group_key: int) -> PeopleGroup:
    """Return a user group. Raises Http404 for an unknown group. Four queries."""
    rows = _group_rows(Group.objects.filter(pk=group_key))
    if not rows:
        raise Http404(f"user group {group_key} not found")
    return rows[0]


def query_active_admins() -> QuerySet[User]:
    """Return the query of active users who are admins everywhere."""
    of_role = Q(groups__name=ADMIN) | Q(is_superuser=True)
    return User.objects.filter(of_role, is_active=True).distinct()


def _annotate_users(users: QuerySet[User]) -> QuerySet[User]:
    annotated = users.annotate(
        tokens_held=Count("auth_token_set", distinct=True), issuer=F("provider_identity__issuer")
    )
    return annotated.prefetch_related("groups")


def _person(user: User) -> PersonRow:
    names = sorted(group.name for group in user.groups.all())
    roles = [name for name in ROLES if name in names]
    return PersonRow(
        id=user.pk,
        name=user.get_username(),
        email=user.email,
        is_active=user.is_active,
        roles=[*roles, *([SUPERUSER] if user.is_superuser else [])],
        groups=[name for name in names if name not in ROLES],
        signs_in_by=_get_login_method(user),
        tokens=getattr(user, "tokens_held", 0),
        joined_at=user.date_joined,
        last_login=user.last_login,
    )


def _get_login_method(user: User) -> str:
    issuer: str | None = getattr(user, "issuer", None)
    return issuer or (PASSWORD if user.has_usable_password() else NOTHING_YET)


def _list_rights(user: User) -> list[RightRow]:
    own = [RightRow(right=role, place=EVERYWHERE, by_group="") for role in _person(user).roles]
    held = Q(user=user) | Q(group__in=user.groups.all())
    return sorted([*own, *_list_grants(held)], key=_sort_key)


def _group_rows(of: QuerySet[Group]) -> list[PeopleGroup]:
    rows = list(of.exclude(name__in=ROLES).order_by("name").prefetch_related("user_set"))
    granted = _list_grants(Q(group__in=[group.pk for group in rows]))
    return [
        PeopleGroup(
            id=group.pk,
            name=group.name,
            members=sorted(user.get_username() for user in group.user_set.all()),
            rights=sorted([row for row in granted if row.by_group == group.name], key=_sort_key),
        )
        for group in rows
    ]


def _list_grants(held: Q) -> list[RightRow]:
    grants: list[tuple[str, Grant | RowGrant]] = [
        *((grant.role, grant) for grant in Grant.objects.filter(held).select_related(*_NAMED)),
        *((grant.right, grant) for grant in RowGrant.objects.filter(held).select_related(*_NAMED)),
    ]
    return [
        RightRow(
            right=right,
            place=_format_place(grant),
            by_group=grant.group.name if grant.group is not None else "",
        )
        for right, grant in grants
    ]


_NAMED = ("group", "table")


def _format_place(grant: Grant | RowGrant) -> str:
    if grant.table is not None:
        return f"table {grant.table.slug}"
    return f"namespace {grant.namespace}" if grant.namespace else EVERYWHERE


def _sort_key(row: RightRow) -> tuple[bool, str, str, str]:
    return row.place != EVERYWHERE, row.place, row.right, row.by_group
