"""Personal API tokens: stored hashed, many per user, each with an end, revoked by deleting."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from django.contrib.auth.models import User
from knox.models import AuthToken

from controlplane.audit.actions import do_record

DAYS_DEFAULT = 90
DAYS_MAX = 365


class TokenRecord(Protocol):
    token_key: str
    created: datetime
    expiry: datetime | None


def create_token(user: User, *, lifetime: timedelta) -> tuple[TokenRecord, str]:
    """The stored row and the token itself, which nobody can read again."""
    row, token = AuthToken.objects.create(user=user, expiry=lifetime)
    do_record(who=user.get_username(), what="token.create", subject=row.token_key, result="done")
    return row, token


def tokens_of(user: User) -> list[TokenRecord]:
    return list(AuthToken.objects.filter(user=user).order_by("-created"))


def revoke_token(user: User, token_key: str) -> bool:
    """False when this user has no such token."""
    deleted, _ = AuthToken.objects.filter(user=user, token_key=token_key).delete()
    if deleted:
        do_record(who=user.get_username(), what="token.revoke", subject=token_key, result="done")
    return bool(deleted)
