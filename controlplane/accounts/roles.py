"""The roles that hold everywhere, as Django groups. Three of them have all that the one before them
has: a viewer reads, an operator writes and looks after tables, an admin also does what takes data
away. An auditor reads as a viewer does, and the audit of everything besides. A superuser is an
admin.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

VIEWER = "viewer"
OPERATOR = "operator"
ADMIN = "admin"
AUDITOR = "auditor"


def is_viewer(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may read. Anonymous, inactive, and users with no role may not."""
    return bool(_roles(user))


def is_operator(user: AbstractBaseUser | AnonymousUser) -> bool:
    return bool(_roles(user) & {OPERATOR, ADMIN})


def is_admin(user: AbstractBaseUser | AnonymousUser) -> bool:
    return ADMIN in _roles(user)


def is_auditor(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may read the audit of every table and person: auditors, and admins."""
    return bool(_roles(user) & {AUDITOR, ADMIN})


def _roles(user: AbstractBaseUser | AnonymousUser) -> frozenset[str]:
    if not isinstance(user, User) or not user.is_active:
        return frozenset()
    if user.is_superuser:
        return frozenset({VIEWER, OPERATOR, ADMIN})
    names = frozenset(group.name for group in user.groups.all())
    return names & {VIEWER, OPERATOR, ADMIN, AUDITOR}
