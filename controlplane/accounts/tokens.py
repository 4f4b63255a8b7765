"""Creation of tokens, and their lookup with one query, for each request of a program. Only the hash
of a secret is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from knox.crypto import hash_token
from knox.models import get_digest_token
from knox.settings import CONSTANTS

from controlplane.accounts.models import Token
from controlplane.kept_sql import KeptQuery

_TOKEN: Final = tuple(field.attname for field in Token._meta.concrete_fields)
_USER: Final = tuple(field.attname for field in User._meta.concrete_fields)
_KEY_MARK: Final = "the key of a token"


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


def find_token(secret: str) -> Token | None:
    """Return the token with this secret, with its user.

    None if there is no such token, or if the user has an expired token, so that the caller has to
    use the slower path of Knox, which deletes it. Raises TypeError or binascii.Error for a
    malformed secret.
    """
    digest = hash_token(secret)
    rows = _TOKENS.rows(secret[: CONSTANTS.TOKEN_KEY_LENGTH])
    for is_one_over, *columns in rows:
        token = Token.from_db("default", _TOKEN, columns[: len(_TOKEN)])
        if constant_time_compare(token.digest, digest):
            if is_one_over:
                return None
            token.user = User.from_db("default", _USER, columns[len(_TOKEN) :])
            return token
    return None


def _query_tokens(key: str) -> QuerySet[Any, Any]:
    over = Token.objects.filter(user=OuterRef("user"), expiry__lt=Now())
    tokens = Token.objects.filter(token_key=key).annotate(is_one_over=Exists(over))
    return tokens.values_list("is_one_over", *_TOKEN, *(f"user__{name}" for name in _USER))


_TOKENS: Final = KeptQuery[Any](_query_tokens, _KEY_MARK)
