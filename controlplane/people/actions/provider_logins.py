"""Logins through a provider. A user is found by issuer and subject only, never by a name or an
e-mail address, so that no other person takes over an account by using its name at the provider.

Roles and groups in the mapping of the settings follow the provider's claim at every login. Others
are kept, and so is the role of the last admin.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction

from controlplane.accounts.access_levels import ADMIN
from controlplane.accounts.models import ProviderIdentity
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.people.actions.users import lock_user, lock_users, require_user_admin
from controlplane.people.oidc.provider import LoginRejected
from controlplane.people.queries.users import PersonRow, get_user_row, query_active_admins
from controlplane.settings.oidc import OidcSettings
from controlplane.tables.grants import Granter
from workers.installation import format_command

log = logging.getLogger(__name__)

BY = "the provider"
EVERY_USER = "*"
SUBJECT_CHARS_MAX = 255
_NO_NAME = re.compile(r"[^\w.@+-]")


def do_sign_in(claims: Mapping[str, Any], oidc: OidcSettings) -> User:
    """Return the user of verified claims, with the roles and groups of the claim. Create the user
    if there is none.

    Raises LoginRejected for a deactivated user, for an e-mail domain that is not allowed, for an
    unknown user if users are not created, and if the name belongs to another user.
    """
    subject = str(claims["sub"])
    if not 0 < len(subject) <= SUBJECT_CHARS_MAX:
        raise LoginRejected("the provider gave no usable subject")
    _check_email(claims, oidc)
    with transaction.atomic():
        lock_users()
        identities = ProviderIdentity.objects.filter(issuer=oidc.issuer, subject=subject)
        identity = identities.select_related("user").first()
        user = _create_user(claims, subject, oidc) if identity is None else identity.user
        if not user.is_active:
            raise LoginRejected("this account is deactivated: ask an admin of this node")
        _apply_claims(user, claims, oidc)
    return user


def do_connect(
    name: str, subject: str, oidc: OidcSettings, *, by: Granter, reason: str = ""
) -> PersonRow:
    """Connect a user to the provider's `subject` and remove the password.

    Raises PermissionDenied, Http404; InvalidRequest if user or subject is already connected.
    """
    require_user_admin(by)
    if not 0 < len(subject) <= SUBJECT_CHARS_MAX:
        raise InvalidRequest("a subject must have 1 to 255 characters")
    with transaction.atomic():
        user = lock_user(name)
        if ProviderIdentity.objects.filter(user=user).exists():
            raise InvalidRequest("this user is already connected to a provider", user=name)
        if ProviderIdentity.objects.filter(issuer=oidc.issuer, subject=subject).exists():
            raise InvalidRequest("another user is connected to this subject", subject=subject)
        _connect(user, subject, oidc)
        row = get_user_row(user)
        _record("user.connect", row, by.name, reason=reason, subject=subject, issuer=oidc.issuer)
    return row


def _connect(user: User, subject: str, oidc: OidcSettings) -> None:
    user.set_unusable_password()
    user.save(update_fields=["password"])
    ProviderIdentity.objects.create(user=user, issuer=oidc.issuer, subject=subject)


def _create_user(claims: Mapping[str, Any], subject: str, oidc: OidcSettings) -> User:
    if not oidc.makes_users:
        raise LoginRejected("you have no account on this node: ask an admin for one")
    name = _choose_name(claims, subject)
    if User.objects.filter(username__iexact=name).exists():
        raise LoginRejected(
            f"another user has the name {name}. If that is you, an admin can connect the account: "
            + format_command(f"user connect {name} {subject}")
        )
    user = User.objects.create(username=name, email=_get_verified_email(claims))
    _connect(user, subject, oidc)
    _record("user.create", get_user_row(user), BY, subject=subject, issuer=oidc.issuer)
    return user


def _choose_name(claims: Mapping[str, Any], subject: str) -> str:
    """Return a user name from the claims, with characters that a user name may contain."""
    name = claims.get("preferred_username") or claims.get("email") or subject
    return _NO_NAME.sub("-", str(name))[:150]


def _get_verified_email(claims: Mapping[str, Any]) -> str:
    """Return the e-mail address; empty if the provider has not verified it."""
    return str(claims.get("email", ""))[:254] if claims.get("email_verified") is True else ""


def _check_email(claims: Mapping[str, Any], oidc: OidcSettings) -> None:
    if not oidc.email_domains:
        return
    domain = _get_verified_email(claims).rpartition("@")[2].lower()
    if domain not in oidc.email_domains:
        raise LoginRejected("your e-mail address is not allowed on this node")


def _apply_claims(user: User, claims: Mapping[str, Any], oidc: OidcSettings) -> None:
    claim = claims.get(oidc.groups_claim, [])
    theirs = {str(name) for name in claim} if isinstance(claim, list) else {str(claim)}
    expected = _map_names(oidc.roles, theirs) | _map_names(oidc.groups, theirs)
    mapped = {*oidc.roles, *oidc.groups}
    before = set(user.groups.values_list("name", flat=True))
    gained, lost = sorted(expected - before), sorted((mapped & before) - expected)
    protected = [ADMIN] if ADMIN in lost and _is_last_admin(user) else []
    lost = [name for name in lost if name not in protected]
    if not (gained or lost or protected):
        return
    for name in gained:
        user.groups.add(Group.objects.get_or_create(name=name)[0])
    user.groups.remove(*Group.objects.filter(name__in=lost))
    if protected:
        log.warning(
            "the provider's claim would remove the last admin, so %s keeps the role",
            user.get_username(),
        )
    _record("user.follow", get_user_row(user), BY, gained=gained, lost=lost, kept=protected)


def _is_last_admin(user: User) -> bool:
    """Return whether no other active user is an admin. The lock on users serializes the callers."""
    return not user.is_superuser and not query_active_admins().exclude(pk=user.pk).exists()


def _map_names(mapping: Mapping[str, Iterable[str]], theirs: set[str]) -> set[str]:
    return {ours for ours, names in mapping.items() if theirs & set(names) or EVERY_USER in names}


def _record(what: str, row: PersonRow, who: str, *, reason: str = "", **more: object) -> None:
    details = {"user": row.name, "roles": row.roles, "groups": row.groups, **more}
    do_record(who=who, what=what, subject=row.name, result="done", reason=reason, details=details)
