"""The two roles, as Django groups: a viewer reads everything, an admin also acts. A superuser is an
admin.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

VIEWER = "viewer"
ADMIN = "admin"


def is_viewer(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may read. Anonymous, inactive, and users with no role may not."""
    return bool(_roles(user))


def is_admin(user: AbstractBaseUser | AnonymousUser) -> bool:
    return ADMIN in _roles(user)


def _roles(user: AbstractBaseUser | AnonymousUser) -> frozenset[str]:
    if not isinstance(user, User) or not user.is_active:
        return frozenset()
    if user.is_superuser:
        return frozenset({VIEWER, ADMIN})
    names = frozenset(group.name for group in user.groups.all())
    return names & {VIEWER, ADMIN}
