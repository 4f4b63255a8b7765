"""Whose a token is, by one query: each request of a program begins with it."""

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


def bearer_of(secret: str) -> Token | None:
    """The token of this secret, with its user. None where there is more to do than to find it: for
    a secret that opens nothing, and where the user has a token that is over.

    Raises TypeError, binascii.Error for what is no secret.
    """
    digest = hash_token(secret)
    rows = _OF_KEY.rows(secret[: CONSTANTS.TOKEN_KEY_LENGTH])
    for is_one_over, *columns in rows:
        token = Token.from_db("default", _TOKEN, columns[: len(_TOKEN)])
        if constant_time_compare(token.digest, digest):
            if is_one_over:
                return None
            token.user = User.from_db("default", _USER, columns[len(_TOKEN) :])
            return token
    return None


def _of_key(key: str) -> QuerySet[Any, Any]:
    over = Token.objects.filter(user=OuterRef("user"), expiry__lt=Now())
    tokens = Token.objects.filter(token_key=key).annotate(is_one_over=Exists(over))
    return tokens.values_list("is_one_over", *_TOKEN, *(f"user__{name}" for name in _USER))


_OF_KEY: Final = KeptQuery[Any](_of_key, _KEY_MARK)
