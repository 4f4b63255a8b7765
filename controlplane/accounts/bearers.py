"""Token lookup with one query, for each request of a program."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils.crypto import constant_time_compare
from knox.crypto import hash_token
from knox.settings import CONSTANTS

from controlplane.accounts.models import Token
from controlplane.kept_sql import KeptQuery

_TOKEN: Final = tuple(field.attname for field in Token._meta.concrete_fields)
_USER: Final = tuple(field.attname for field in User._meta.concrete_fields)
_KEY_MARK: Final = "the key of a token"


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
