"""Who signs in by a provider: found by issuer and subject alone, never by a name or an e-mail
address, so that no account of ours falls to whoever calls himself so elsewhere.

Roles and groups that the settings map follow the provider's claim at every login; others stay, and
so does the role of the last admin.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction

from controlplane.accounts.models import ProviderIdentity
from controlplane.accounts.role_names import ADMIN
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.people.actions.users import check_keeper, lock_people, locked_user
from controlplane.people.oidc.provider import LoginRefused
from controlplane.people.queries.users import PersonRow, active_admins, person_row
from controlplane.settings.oidc import OidcSettings
from controlplane.tables.grants import Granter
from workers.installation import format_command

log = logging.getLogger(__name__)

BY = "the provider"
EVERYBODY = "*"
SUBJECT_CHARS_MAX = 255
_NO_NAME = re.compile(r"[^\w.@+-]")


def do_sign_in(claims: Mapping[str, Any], oidc: OidcSettings) -> User:
    """The user whom verified claims speak of, made if there is none, with the roles and groups that
    the claim gives.

    Raises LoginRefused for somebody locked out, of another e-mail domain, unknown where nobody is
    made, or whose name is another user's.
    """
    subject = str(claims["sub"])
    if not 0 < len(subject) <= SUBJECT_CHARS_MAX:
        raise LoginRefused("the provider gave no usable subject")
    _check_email(claims, oidc)
    with transaction.atomic():
        lock_people()
        known = ProviderIdentity.objects.filter(issuer=oidc.issuer, subject=subject)
        identity = known.select_related("user").first()
        user = _make(claims, subject, oidc) if identity is None else identity.user
        if not user.is_active:
            raise LoginRefused("this account is locked out; ask an admin of this node")
        _follow(user, claims, oidc)
    return user


def do_connect(
    name: str, subject: str, oidc: OidcSettings, *, by: Granter, reason: str = ""
) -> PersonRow:
    """From now on this user signs in by the provider as `subject`, and by no password.

    Raises PermissionDenied, Http404; InvalidRequest where one of the two is connected already.
    """
    check_keeper(by)
    if not 0 < len(subject) <= SUBJECT_CHARS_MAX:
        raise InvalidRequest("a subject has 1 to 255 characters")
    with transaction.atomic():
        user = locked_user(name)
        if ProviderIdentity.objects.filter(user=user).exists():
            raise InvalidRequest("this user signs in by a provider already", user=name)
        if ProviderIdentity.objects.filter(issuer=oidc.issuer, subject=subject).exists():
            raise InvalidRequest("somebody signs in as this subject already", subject=subject)
        _connect(user, subject, oidc)
        row = person_row(user)
        _record("user.connect", row, by.name, reason=reason, subject=subject, issuer=oidc.issuer)
    return row


def _connect(user: User, subject: str, oidc: OidcSettings) -> None:
    user.set_unusable_password()
    user.save(update_fields=["password"])
    ProviderIdentity.objects.create(user=user, issuer=oidc.issuer, subject=subject)


def _make(claims: Mapping[str, Any], subject: str, oidc: OidcSettings) -> User:
    if not oidc.makes_users:
        raise LoginRefused("nobody here knows you; ask an admin of this node for an account")
    name = _name(claims, subject)
    if User.objects.filter(username__iexact=name).exists():
        raise LoginRefused(
            f"there is another user of the name {name}. If that is you, an admin connects the two: "
            + format_command(f"user connect {name} {subject}")
        )
    user = User.objects.create(username=name, email=_email(claims))
    _connect(user, subject, oidc)
    _record("user.create", person_row(user), BY, subject=subject, issuer=oidc.issuer)
    return user


def _name(claims: Mapping[str, Any], subject: str) -> str:
    """What the provider calls somebody, in the letters that a name here may have."""
    said = claims.get("preferred_username") or claims.get("email") or subject
    return _NO_NAME.sub("-", str(said))[:150]


def _email(claims: Mapping[str, Any]) -> str:
    """Empty for one that the provider has not verified."""
    return str(claims.get("email", ""))[:254] if claims.get("email_verified") is True else ""


def _check_email(claims: Mapping[str, Any], oidc: OidcSettings) -> None:
    if not oidc.email_domains:
        return
    domain = _email(claims).rpartition("@")[2].lower()
    if domain not in oidc.email_domains:
        raise LoginRefused("your e-mail address is none of those that are let in here")


def _follow(user: User, claims: Mapping[str, Any], oidc: OidcSettings) -> None:
    said = claims.get(oidc.groups_claim, [])
    theirs = {str(name) for name in said} if isinstance(said, list) else {str(said)}
    wanted = _ours(oidc.roles, theirs) | _ours(oidc.groups, theirs)
    mapped = {*oidc.roles, *oidc.groups}
    before = set(user.groups.values_list("name", flat=True))
    gained, lost = sorted(wanted - before), sorted((mapped & before) - wanted)
    kept = [ADMIN] if ADMIN in lost and _is_last_admin(user) else []
    lost = [name for name in lost if name not in kept]
    if not (gained or lost or kept):
        return
    for name in gained:
        user.groups.add(Group.objects.get_or_create(name=name)[0])
    user.groups.remove(*Group.objects.filter(name__in=lost))
    if kept:
        log.warning(
            "the provider's claim would leave nobody who is admin, so %s stays one",
            user.get_username(),
        )
    _record("user.follow", person_row(user), BY, gained=gained, lost=lost, kept=kept)


def _is_last_admin(user: User) -> bool:
    """Whether nobody else who may sign in is admin; two that leave at once come one by one."""
    return not user.is_superuser and not active_admins().exclude(pk=user.pk).exists()


def _ours(mapping: Mapping[str, Iterable[str]], theirs: set[str]) -> set[str]:
    return {ours for ours, names in mapping.items() if theirs & set(names) or EVERYBODY in names}


def _record(what: str, row: PersonRow, who: str, *, reason: str = "", **more: object) -> None:
    details = {"user": row.name, "roles": row.roles, "groups": row.groups, **more}
    do_record(who=who, what=what, subject=row.name, result="done", reason=reason, details=details)
