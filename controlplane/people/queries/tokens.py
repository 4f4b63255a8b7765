"""Personal API tokens as their owners, admins and auditors see them: never the token itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.accounts.models import Token
from controlplane.accounts.roles import is_auditor
from controlplane.tables.models import Table

GONE = "(deleted table)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A valid token."""

    id: str
    """The token's first characters."""
    name: str
    user: str
    scope: str
    """read, operate or administer; never more than its owner may."""
    namespaces: list[str]
    """With `tables`, where it holds; everywhere where both are empty."""
    tables: list[str]
    """Slugs."""
    created: datetime
    expiry: datetime | None
    last_used_at: datetime | None
    """To the minute; null for never, or for not since tokens note it."""


def list_user_tokens(user: User) -> list[TokenRow]:
    """List the valid tokens of a user, newest first. At most two queries."""
    return to_token_rows(_query_valid().filter(user=user))


def list_tokens_by_owner(username: str) -> list[TokenRow]:
    """List the valid tokens of a user by name, for admins and auditors, newest first."""
    return to_token_rows(_query_valid().filter(user__username=username))


def list_visible_tokens(user: User) -> list[TokenRow]:
    """List the tokens that the user may see, newest first: auditors and admins everywhere see all
    tokens, other users their own. At most two queries, next to those for roles.
    """
    if not is_auditor(user):
        return list_user_tokens(user)
    return to_token_rows(_query_valid())


def to_token_rows(tokens: QuerySet[Token]) -> list[TokenRow]:
    """Convert tokens to rows, in their order. At most two queries."""
    rows = list(tokens.select_related("user"))
    keys = {key for token in rows for key in token.table_keys}
    slugs = dict(Table.objects.filter(pk__in=keys).values_list("pk", "slug")) if keys else {}
    return [_row(token, slugs) for token in rows]


def _query_valid() -> QuerySet[Token]:
    rows: QuerySet[Token] = Token.objects.order_by("-created", "digest")
    return rows.exclude(expiry__lt=timezone.now())


def _row(token: Token, slugs: dict[int, str]) -> TokenRow:
    return TokenRow(
        id=token.token_key,
        name=token.name,
        user=token.user.get_username(),
        scope=token.scope,
        namespaces=sorted(token.namespaces),
        tables=sorted(slugs.get(key, GONE) for key in token.table_keys),
        created=token.created,
        expiry=token.expiry,
        last_used_at=token.last_used_at,
    )
