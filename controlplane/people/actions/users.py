"""People: who may sign in, and the roles that hold everywhere. Admins everywhere do all of this,
and whoever has a shell of this machine. Nobody is deleted: the audit and operations name people,
and a name that somebody had is not to become another person's.
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

from controlplane.accounts.models import ProviderIdentity
from controlplane.accounts.role_names import ADMIN, ROLES
from controlplane.accounts.roles import is_admin
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.people.actions.tokens import do_end_tokens
from controlplane.people.queries.users import PersonRow, active_admins, person_row
from controlplane.tables.grants import Granter


def check_keeper(by: Granter) -> None:
    """Refuse, as PermissionDenied, whoever may not look after people."""
    if by.user is not None and not is_admin(by.user):
        raise PermissionDenied(f"this requires the {ADMIN} role everywhere")


def do_create_user(
    name: str, *, by: Granter, email: str = "", roles: Iterable[str] = (), reason: str = ""
) -> PersonRow:
    """Somebody without a password, who needs a link (`do_make_link`) to set one.

    Raises PermissionDenied; InvalidRequest for a name that is taken, in whatever case, or that is
    none, an e-mail address that is none, a role that there is not.
    """
    check_keeper(by)
    groups = _roles(roles)
    user = User(username=name.strip(), email=email.strip())
    user.set_unusable_password()
    try:
        with transaction.atomic():
            lock_people()
            _check_new(user)
            user.save()
            user.groups.set(groups)
            row = person_row(user)
            _record("user.create", row, by, reason, roles=row.roles, email=row.email)
    except IntegrityError as error:  # Somebody made the same since `_check_new`.
        raise _name_taken(user) from error
    return row


def do_set_roles(name: str, roles: Iterable[str], *, by: Granter, reason: str = "") -> PersonRow:
    """These everywhere and no others; what people have in places, and by groups, stays.

    Raises PermissionDenied, Http404, InvalidRequest for a role that there is not, NotAllowedNow
    where nobody would be an admin any more.
    """
    check_keeper(by)
    wanted = _roles(roles)
    with transaction.atomic():
        user = locked_user(name)
        before = person_row(user)
        if ADMIN not in [group.name for group in wanted] and not user.is_superuser:
            _check_not_last(user)
        user.groups.remove(*Group.objects.filter(name__in=ROLES))
        user.groups.add(*wanted)
        row = person_row(user)
        _record("user.roles", row, by, reason, roles=row.roles, roles_before=before.roles)
    return row


def do_deactivate_user(name: str, *, by: Granter, reason: str = "") -> PersonRow:
    """Lock somebody out, at once: sessions and tokens end, and cannot come back; what waits to
    begin in this name is refused as it begins. Roles stay, and hold again after `do_activate_user`.

    Raises PermissionDenied, Http404, NotAllowedNow for the last admin.
    """
    check_keeper(by)
    with transaction.atomic():
        user = locked_user(name)
        _check_not_last(user)
        user.is_active = False
        # Another password, even one that cannot be used, ends every session for good.
        user.set_unusable_password()
        user.save(update_fields=["is_active", "password"])
        ended = do_end_tokens(user, by=by.name, reason=reason)
        row = person_row(user)
        _record("user.deactivate", row, by, reason, tokens=ended)
    return row


def do_activate_user(name: str, *, by: Granter, reason: str = "") -> PersonRow:
    """Let somebody in again, who needs a new password, and new tokens.

    Raises PermissionDenied, Http404.
    """
    check_keeper(by)
    with transaction.atomic():
        user = locked_user(name)
        user.is_active = True
        user.save(update_fields=["is_active"])
        row = person_row(user)
        _record("user.activate", row, by, reason)
    return row


def do_make_link(name: str, *, by: Granter, reason: str = "") -> str:
    """The path of a page on which whoever has it sets this user's password, once, for as long as
    `PASSWORD_RESET_TIMEOUT` says. It ends with the next password or login as well.

    Raises PermissionDenied, Http404, NotAllowedNow for somebody who is locked out, or who signs in
    by a provider.
    """
    check_keeper(by)
    with transaction.atomic():
        user = locked_user(name)
        _check_password_user(user)
        _record("user.link", person_row(user), by, reason)
    key = urlsafe_base64_encode(force_bytes(user.pk))
    return f"/password/{key}/{default_token_generator.make_token(user)}/"


def link_hours() -> int:
    """For how long a link is good."""
    return settings.PASSWORD_RESET_TIMEOUT // 3600


def do_set_password(user: User, password: str, *, by: str) -> None:
    """End all sessions of the user and take this password from now on; tokens go on.

    Raises ValidationError for one that is too easy, NotAllowedNow as `do_make_link`.
    """
    validate_password(password, user)
    with transaction.atomic():
        locked = locked_user(user.get_username())
        _check_password_user(locked)
        locked.set_password(password)
        locked.save(update_fields=["password"])
        _record("user.password", person_row(locked), Granter(user=None, name=by), "")


def _roles(names: Iterable[str]) -> list[Group]:
    wanted = set(names)
    if unknown := sorted(wanted - set(ROLES)):
        raise InvalidRequest("there is no such role", role=unknown[0][:32], known=ROLES)
    return list(Group.objects.filter(name__in=wanted))


def _check_new(user: User) -> None:
    if User.objects.filter(username__iexact=user.username).exists():
        raise _name_taken(user)
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        field, problems = next(iter(error.message_dict.items()))
        raise InvalidRequest(f"{field}: {problems[0].rstrip('.')}") from error


def _name_taken(user: User) -> InvalidRequest:
    return InvalidRequest("there is a user of this name", user=user.username)


def lock_people() -> None:
    """Changes of who is an admin wait for one another."""
    Group.objects.select_for_update().get(name=ADMIN)


def locked_user(name: str) -> User:
    """Changes of this user, and of who is an admin, wait for this transaction. Raises Http404."""
    lock_people()
    user = User.objects.select_for_update().filter(username=name).first()
    if user is None:
        raise Http404(f"there is no user {name[:150]}")
    return user


def _check_password_user(user: User) -> None:
    name = user.get_username()
    if not user.is_active:
        raise NotAllowedNow("this user is locked out; let the user in first", user=name)
    if ProviderIdentity.objects.filter(user=user).exists():
        raise NotAllowedNow("this user signs in by a provider, and has no password", user=name)


def _check_not_last(user: User) -> None:
    admins = active_admins()
    if admins.filter(pk=user.pk).exists() and not admins.exclude(pk=user.pk).exists():
        raise NotAllowedNow(
            "nobody else is an admin everywhere; make somebody one first", user=user.get_username()
        )


def _record(what: str, row: PersonRow, by: Granter, reason: str, **more: object) -> None:
    details = {"user": row.name, **more}
    do_record(
        who=by.name, what=what, subject=row.name, result="done", reason=reason, details=details
    )
