"""User groups, which can be granted roles in namespaces and on tables. Admins everywhere manage
them, and the shell of this machine.
"""

from __future__ import annotations

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.http import Http404

from controlplane.accounts.access_levels import ROLES
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.people.actions.users import require_user_admin
from controlplane.people.queries.users import PeopleGroup, get_group_row
from controlplane.tables.grants import Granter

NAME_CHARS_MAX = 150


def do_create_group(name: str, *, by: Granter, reason: str = "") -> PeopleGroup:
    """Create an empty group. Raises PermissionDenied; InvalidRequest for an unusable name."""
    require_user_admin(by)
    name = name.strip()
    if not (0 < len(name) <= NAME_CHARS_MAX and name.isprintable()):
        raise InvalidRequest("the name of a group must have 1 to 150 printable characters")
    name_used = InvalidRequest("another group already has this name", group=name)
    try:
        with transaction.atomic():
            if name in ROLES or Group.objects.filter(name__iexact=name).exists():
                raise name_used
            row = get_group_row(Group.objects.create(name=name).pk)
            _record("group.create", row, by, reason)
    except IntegrityError as error:  # Another request created the same group since the check.
        raise name_used from error
    return row


def do_delete_group(group_key: int, *, by: Granter, reason: str = "") -> PeopleGroup:
    """Delete a group and its roles, which its members lose. Return the deleted group.

    Raises PermissionDenied; Http404 if there is no such group or it is a role.
    """
    require_user_admin(by)
    with transaction.atomic():
        group = _lock_group(group_key)
        row = get_group_row(group.pk)
        group.delete()
        _record("group.delete", row, by, reason)
    return row


def do_add_member(group_key: int, username: str, *, by: Granter, reason: str = "") -> PeopleGroup:
    """Add a user to a group.

    Raises PermissionDenied; Http404 if there is no such group or it is a role; InvalidRequest for
    an unknown user.
    """
    return _change(group_key, username, by, reason, is_member=True)


def do_remove_member(
    group_key: int, username: str, *, by: Granter, reason: str = ""
) -> PeopleGroup:
    """Remove a user from a group, if they are a member. Raises the errors of `do_add_member`."""
    return _change(group_key, username, by, reason, is_member=False)


def _change(
    group_key: int, username: str, by: Granter, reason: str, *, is_member: bool
) -> PeopleGroup:
    require_user_admin(by)
    with transaction.atomic():
        group = _lock_group(group_key)
        user = User.objects.filter(username=username).first()
        if user is None:
            raise InvalidRequest("user not found", user=username[:150])
        before = get_group_row(group.pk)
        if is_member:
            group.user_set.add(user)
        else:
            group.user_set.remove(user)
        row = get_group_row(group.pk)
        if row != before:
            what = "group.add" if is_member else "group.remove"
            _record(what, row, by, reason, user=user.get_username())
    return row


def _lock_group(group_key: int) -> Group:
    rows = Group.objects.select_for_update().exclude(name__in=ROLES)
    group = rows.filter(pk=group_key).first()
    if group is None:
        raise Http404(f"user group {group_key} not found")
    return group


def _record(what: str, row: PeopleGroup, by: Granter, reason: str, **more: str) -> None:
    details = {
        "group": row.name,
        "members": row.members,
        "rights": [f"{right.right} {right.place}" for right in row.rights],
        **more,
    }
    do_record(
        who=by.name, what=what, subject=row.name, result="done", reason=reason, details=details
    )
