"""Personal API tokens: stored as hashes, many per user, each with an expiry, revoked by deletion.
Owners create and revoke their own tokens, admins and auditors revoke those of others, and the shell
does both for any user.
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

from controlplane.accounts.access_levels import ADMINISTER, SCOPES
from controlplane.accounts.models import Token
from controlplane.accounts.roles import can_manage_users, get_token_limits
from controlplane.accounts.tokens import create_token
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.people.queries.tokens import TokenRow, to_token_rows
from controlplane.tables.access import Permission, access_table, may_see_some
from controlplane.tables.grants import Granter
from controlplane.tables.names import check_namespace
from workers.installation import format_command

NAME_CHARS_MAX = 100
PLACES_MAX = 50
USE_RECORDED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """The wanted scope of a token. Without namespaces and tables it is not limited to places."""

    days: int
    name: str = ""
    scope: str = ADMINISTER
    namespaces: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    """Slugs."""


def do_create_token(user: User, request: TokenRequest, *, by: str) -> tuple[TokenRow, str]:
    """Create a token; return its row and its secret, which cannot be read again.

    Raises InvalidRequest for an invalid request; Http404 for a table that the owner does not see;
    PermissionDenied for an owner without a role, and for a request that is authenticated by a
    token, so that a stolen token cannot create others.
    """
    if get_token_limits(user) is not None:
        raise PermissionDenied(
            f"a token cannot create tokens: sign in, or use `{format_command('token create')}`"
        )
    _check(request)
    if not may_see_some(user):
        raise PermissionDenied(
            f"{user.get_username()} has no role, so a token would have no access"
        )
    tables = [access_table(user, slug, Permission.VIEW) for slug in sorted(set(request.tables))]
    with transaction.atomic():
        stored, token = create_token(
            user,
            scope=request.scope,
            valid_for=timedelta(days=request.days),
            name=request.name.strip(),
            namespaces=sorted(set(request.namespaces)),
            table_keys=[table.pk for table in tables],
        )
        [row] = to_token_rows(Token.objects.filter(pk=stored.pk))
        _record("token.create", row, by=by)
    return row, token


def do_revoke_token(token_key: str, *, by: Granter, owner: str = "", reason: str = "") -> TokenRow:
    """Revoke a token at once and return it. With the user name `owner`, only a token of that user.

    Raises Http404 if there is no such token, or if `by` may not revoke it.
    """
    tokens = _query_revocable(token_key, by)
    if owner:
        tokens = tokens.filter(user__username=owner)
    with transaction.atomic():
        rows = to_token_rows(tokens)
        if not rows:
            raise Http404(f"token {token_key[:25]} not found")
        tokens.delete()
        for row in rows:
            _record("token.revoke", row, by=by.name, reason=reason)
    return rows[0]


def find_token_to_revoke(token_key: str, *, by: Granter) -> TokenRow:
    """Return the token that `do_revoke_token` would revoke. Raises Http404 like it."""
    rows = to_token_rows(_query_revocable(token_key, by))
    if not rows:
        raise Http404(f"token {token_key[:25]} not found")
    return rows[0]


def _query_revocable(token_key: str, by: Granter) -> QuerySet[Token]:
    tokens = Token.objects.filter(token_key=token_key)
    if by.user is not None and not can_manage_users(by.user):
        tokens = tokens.filter(user=by.user)
    return tokens


def do_end_tokens(user: User, *, by: str, reason: str) -> int:
    """Revoke all tokens of a user; return their number."""
    tokens = Token.objects.filter(user=user)
    rows = to_token_rows(tokens)
    tokens.delete()
    for row in rows:
        _record("token.revoke", row, by=by, reason=reason)
    return len(rows)


def do_record_token_use(token: Token) -> None:
    """Record the time of use of a token, at most once a minute."""
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at >= USE_RECORDED_EVERY:
        Token.objects.filter(pk=token.pk).update(last_used_at=now)


def _check(request: TokenRequest) -> None:
    days_max = settings.SLUICE_TOKEN_DAYS_MAX
    if not 1 <= request.days <= days_max:
        raise InvalidRequest(f"days must be 1 to {days_max}", days=request.days)
    if request.scope not in SCOPES:
        raise InvalidRequest("invalid scope", scope=request.scope[:32], known=SCOPES)
    if len(request.name) > NAME_CHARS_MAX or not request.name.isprintable():
        raise InvalidRequest("the name is too long or not printable", chars_max=NAME_CHARS_MAX)
    if len(request.namespaces) + len(request.tables) > PLACES_MAX:
        raise InvalidRequest("too many namespaces and tables in one token", places_max=PLACES_MAX)
    for namespace in request.namespaces:
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
