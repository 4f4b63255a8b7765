"""`access_table`: the only door to a Table. No view gets one in another way."""

from __future__ import annotations

from enum import StrEnum

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404

from controlplane.accounts.roles import is_admin, is_operator, is_viewer
from controlplane.tables.models import Table


class Permission(StrEnum):
    VIEW = "view"
    OPERATE = "operate"
    """Write, cancel, run services that take no committed data away."""
    ADMINISTER = "administer"
    """Register, roll back, restore, delete."""

    @property
    def role(self) -> str:
        """The least role that has it."""
        return _ROLES[self]


_ROLES = {
    Permission.VIEW: "viewer",
    Permission.OPERATE: "operator",
    Permission.ADMINISTER: "admin",
}
_HAS = {
    Permission.VIEW: is_viewer,
    Permission.OPERATE: is_operator,
    Permission.ADMINISTER: is_admin,
}


def may(user: AbstractBaseUser | AnonymousUser, permission: Permission) -> bool:
    return _HAS[permission](user)


def access_table(
    user: AbstractBaseUser | AnonymousUser, slug: str, permission: Permission
) -> Table:
    """The table, if `user` may do this to it.

    Raises PermissionDenied before it looks for the table, so nobody learns what exists; then
    Http404.
    """
    if not may(user, permission):
        raise PermissionDenied(f"this needs the role {permission.role}")
    try:
        return Table.objects.get(slug=slug)
    except Table.DoesNotExist as error:
        raise Http404(f"there is no table {slug}") from error
