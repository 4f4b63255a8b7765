"""Personal API tokens: stored hashed, many per user, each with an end, revoked by deleting. Their
owner asks for that, admins and auditors revoke those of others, the shell does both for anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from controlplane.accounts.models import Token
from controlplane.accounts.roles import limits_of, may_look_after_people
from controlplane.accounts.scopes import ADMINISTER, SCOPES
from controlplane.accounts.tokens import new_token
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.people.queries.tokens import TokenRow, token_rows
from controlplane.tables.access import Permission, access_table, may_see_some
from controlplane.tables.grants import Granter
from controlplane.tables.names import check_namespace
from workers.installation import format_command

NAME_CHARS_MAX = 100
PLACES_MAX = 50
USE_NOTED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """What a token is to open; without a namespace and a table all that its owner may."""

    days: int
    name: str = ""
    scope: str = ADMINISTER
    namespaces: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    """Slugs."""


def do_create_token(user: User, wanted: TokenRequest, *, by: str) -> tuple[TokenRow, str]:
    """The stored row and the token itself, which nobody can read again.

    Raises InvalidRequest for what is wrong with the request; Http404 for a table that its owner
    does not see; PermissionDenied for an owner without a role, and for one who came with a token:
    whoever finds one makes no others of it.
    """
    if limits_of(user) is not None:
        raise PermissionDenied(
            f"a token makes no token: sign in, or use `{format_command('token create')}`"
        )
    _check(wanted)
    if not may_see_some(user):
        raise PermissionDenied(f"{user.get_username()} has no role, so a token would open nothing")
    tables = [access_table(user, slug, Permission.VIEW) for slug in sorted(set(wanted.tables))]
    with transaction.atomic():
        stored, token = new_token(
            user,
            scope=wanted.scope,
            lasts=timedelta(days=wanted.days),
            name=wanted.name.strip(),
            namespaces=sorted(set(wanted.namespaces)),
            table_keys=[table.pk for table in tables],
        )
        [row] = token_rows(Token.objects.filter(pk=stored.pk))
        _record("token.create", row, by=by)
    return row, token


def do_revoke_token(token_key: str, *, by: Granter, owner: str = "", reason: str = "") -> TokenRow:
    """End a token at once; what it was. `owner` is a name, for whoever means a token of that user
    only.

    Raises Http404 for a token that there is not, or that is another's and not for `by` to end.
    """
    tokens = _to_revoke(token_key, by)
    if owner:
        tokens = tokens.filter(user__username=owner)
    with transaction.atomic():
        rows = token_rows(tokens)
        if not rows:
            raise Http404(f"there is no token {token_key[:25]}")
        tokens.delete()
        for row in rows:
            _record("token.revoke", row, by=by.name, reason=reason)
    return rows[0]


def token_to_revoke(token_key: str, *, by: Granter) -> TokenRow:
    """Return what `do_revoke_token` would end. Raises what it raises."""
    rows = token_rows(_to_revoke(token_key, by))
    if not rows:
        raise Http404(f"there is no token {token_key[:25]}")
    return rows[0]


def _to_revoke(token_key: str, by: Granter) -> QuerySet[Token]:
    tokens = Token.objects.filter(token_key=token_key)
    if by.user is not None and not may_look_after_people(by.user):
        tokens = tokens.filter(user=by.user)
    return tokens


def do_end_tokens(user: User, *, by: str, reason: str) -> int:
    """Revoke all tokens of a user; how many there were."""
    tokens = Token.objects.filter(user=user)
    rows = token_rows(tokens)
    tokens.delete()
    for row in rows:
        _record("token.revoke", row, by=by, reason=reason)
    return len(rows)


def do_note_use(token: Token) -> None:
    """Note that a token is in use now, at most once a minute."""
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at >= USE_NOTED_EVERY:
        Token.objects.filter(pk=token.pk).update(last_used_at=now)


def _check(wanted: TokenRequest) -> None:
    days_max = settings.SLUICE_TOKEN_DAYS_MAX
    if not 1 <= wanted.days <= days_max:
        raise InvalidRequest(f"days must be 1 to {days_max}", days=wanted.days)
    if wanted.scope not in SCOPES:
        raise InvalidRequest("there is no such scope", scope=wanted.scope[:32], known=SCOPES)
    if len(wanted.name) > NAME_CHARS_MAX or not wanted.name.isprintable():
        raise InvalidRequest("the name is too long or not printable", chars_max=NAME_CHARS_MAX)
    if len(wanted.namespaces) + len(wanted.tables) > PLACES_MAX:
        raise InvalidRequest("a token names fewer places", places_max=PLACES_MAX)
    for namespace in wanted.namespaces:
        check_namespace(namespace)


def _record(what: str, row: TokenRow, *, by: str, reason: str = "") -> None:
    details = {
        "user": row.user,
        "name": row.name,
        "scope": row.scope,
        "namespaces": row.namespaces,
        "tables": row.tables,
        "until": row.expiry.isoformat() if row.expiry else "",
    }
    do_record(who=by, what=what, subject=row.id, result="done", reason=reason, details=details)
