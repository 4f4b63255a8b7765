"""Users and their global roles. Admins everywhere manage them, and the shell of this machine.

Users are never deleted: the audit log and operations contain their names, and a name must not pass
to another person.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.http import Http404
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from controlplane.accounts.access_levels import ADMIN, ROLES
from controlplane.accounts.models import ProviderIdentity
from controlplane.accounts.roles import is_admin
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.people.actions.tokens import do_end_tokens
from controlplane.people.queries.users import PersonRow, get_user_row, query_active_admins
from controlplane.tables.grants import Granter


def require_user_admin(by: Granter) -> None:
    """Raise PermissionDenied unless `by` is an admin everywhere or the shell."""
    if by.user is not None and not is_admin(by.user):
        raise PermissionDenied(f"this requires the {ADMIN} role everywhere")


def do_create_user(
    name: str, *, by: Granter, email: str = "", roles: Iterable[str] = (), reason: str = ""
) -> PersonRow:
    """Create a user without a password, who needs a link (`do_make_link`) to set one.

    Raises PermissionDenied; InvalidRequest for an invalid name or one that is used in any case, an
    invalid e-mail address, or an unknown role.
    """
    require_user_admin(by)
    groups = _load_role_groups(roles)
    user = User(username=name.strip(), email=email.strip())
    user.set_unusable_password()
    try:
        with transaction.atomic():
            lock_users()
            _check_new(user)
            user.save()
            user.groups.set(groups)
            row = get_user_row(user)
            _record("user.create", row, by, reason, roles=row.roles, email=row.email)
    except IntegrityError as error:  # Another request created the same user since `_check_new`.
        raise _build_name_error(user) from error
    return row


def do_set_roles(name: str, roles: Iterable[str], *, by: Granter, reason: str = "") -> PersonRow:
    """Replace the global roles of a user. Grants in places and roles of groups are kept.

    Raises PermissionDenied, Http404; InvalidRequest for an unknown role; NotAllowedNow if no admin
    would be left.
    """
    require_user_admin(by)
    role_groups = _load_role_groups(roles)
    with transaction.atomic():
        user = lock_user(name)
        before = get_user_row(user)
        if ADMIN not in [group.name for group in role_groups] and not user.is_superuser:
            _check_not_last(user)
        user.groups.remove(*Group.objects.filter(name__in=ROLES))
        user.groups.add(*role_groups)
        row = get_user_row(user)
        _record("user.roles", row, by, reason, roles=row.roles, roles_before=before.roles)
    return row


def do_deactivate_user(name: str, *, by: Granter, reason: str = "") -> PersonRow:
    """Deactivate a user at once: sessions and tokens end permanently, and queued operations of the
    user are rejected when they start. Roles apply again after `do_activate_user`.

    Raises PermissionDenied, Http404; NotAllowedNow for the last admin.
    """
    require_user_admin(by)
    with transaction.atomic():
        user = lock_user(name)
        _check_not_last(user)
        user.is_active = False
        # A change of the password, even to an unusable one, ends every session permanently.
        user.set_unusable_password()
        user.save(update_fields=["is_active", "password"])
        ended = do_end_tokens(user, by=by.name, reason=reason)
        row = get_user_row(user)
        _record("user.deactivate", row, by, reason, tokens=ended)
    return row


def do_activate_user(name: str, *, by: Granter, reason: str = "") -> PersonRow:
    """Reactivate a user, who then needs a new password and new tokens.

    Raises PermissionDenied, Http404.
    """
    require_user_admin(by)
    with transaction.atomic():
        user = lock_user(name)
        user.is_active = True
        user.save(update_fields=["is_active"])
        row = get_user_row(user)
        _record("user.activate", row, by, reason)
    return row


def do_make_link(name: str, *, by: Granter, reason: str = "") -> str:
    """Return the path of a page that sets the user's password once, valid for
    `PASSWORD_RESET_TIMEOUT` seconds. The next password or login also invalidates it.

    Raises PermissionDenied, Http404; NotAllowedNow for a user who is deactivated or signs in
    through a provider.
    """
    require_user_admin(by)
    with transaction.atomic():
        user = lock_user(name)
        _check_password_user(user)
        _record("user.link", get_user_row(user), by, reason)
    key = urlsafe_base64_encode(force_bytes(user.pk))
    return f"/password/{key}/{default_token_generator.make_token(user)}/"


def get_link_hours() -> int:
    """Return how many hours a link is valid."""
    return settings.PASSWORD_RESET_TIMEOUT // 3600


def do_set_password(user: User, password: str, *, by: str) -> None:
    """Set the password of a user and end all sessions; tokens stay valid.

    Raises ValidationError for a weak password; NotAllowedNow like `do_make_link`.
    """
    validate_password(password, user)
    with transaction.atomic():
        locked = lock_user(user.get_username())
        _check_password_user(locked)
        locked.set_password(password)
        locked.save(update_fields=["password"])
        _record("user.password", get_user_row(locked), Granter(user=None, name=by), "")


def _load_role_groups(names: Iterable[str]) -> list[Group]:
    role_names = set(names)
    if unknown := sorted(role_names - set(ROLES)):
        raise InvalidRequest("invalid role", role=unknown[0][:32], known=ROLES)
    return list(Group.objects.filter(name__in=role_names))


def _check_new(user: User) -> None:
    if User.objects.filter(username__iexact=user.username).exists():
        raise _build_name_error(user)
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        field, problems = next(iter(error.message_dict.items()))
        raise InvalidRequest(f"{field}: {problems[0].rstrip('.')}") from error


def _build_name_error(user: User) -> InvalidRequest:
    return InvalidRequest("another user already has this name", user=user.username)


def lock_users() -> None:
    """Lock changes of admins against each other until the transaction ends."""
    Group.objects.select_for_update().get(name=ADMIN)


def lock_user(name: str) -> User:
    """Return the user, locked together with changes of admins until the transaction ends.

    Raises Http404.
    """
    lock_users()
    user = User.objects.select_for_update().filter(username=name).first()
    if user is None:
        raise Http404(f"user {name[:150]} not found")
    return user


def _check_password_user(user: User) -> None:
    name = user.get_username()
    if not user.is_active:
        raise NotAllowedNow("this user is deactivated: reactivate the user first", user=name)
    if ProviderIdentity.objects.filter(user=user).exists():
        raise NotAllowedNow("this user signs in through a provider and has no password", user=name)


def _check_not_last(user: User) -> None:
    admins = query_active_admins()
    if admins.filter(pk=user.pk).exists() and not admins.exclude(pk=user.pk).exists():
        raise NotAllowedNow(
            "this is the last admin: make another user admin first", user=user.get_username()
        )


def _record(what: str, row: PersonRow, by: Granter, reason: str, **more: object) -> None:
    details = {"user": row.name, **more}
    do_record(
        who=by.name, what=what, subject=row.name, result="done", reason=reason, details=details
    )
