"""Creation of tokens. Only the hash of a secret is stored."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone
from knox.models import get_digest_token
from knox.settings import CONSTANTS

from controlplane.accounts.models import Token


def create_token(
    user: User,
    *,
    scope: str,
    valid_for: timedelta | None = None,
    name: str = "",
    namespaces: Iterable[str] = (),
    table_keys: Iterable[int] = (),
) -> tuple[Token, str]:
    """Create a token; return its row and its secret, which cannot be read again.

    Args:
        valid_for: None for a token that does not expire.
    """
    digest, token = get_digest_token()
    row = Token.objects.create(
        digest=digest,
        token_key=token[: CONSTANTS.TOKEN_KEY_LENGTH],
        user=user,
        expiry=None if valid_for is None else timezone.now() + valid_for,
        name=name,
        scope=scope,
        namespaces=list(namespaces),
        table_keys=list(table_keys),
    )
    return row, token
