"""Personal API tokens as their owner sees them: never the token itself."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from django.contrib.auth.models import User
from knox.models import AuthToken


class TokenRecord(Protocol):
    token_key: str
    """Its first characters."""
    created: datetime
    expiry: datetime | None


def tokens_of(user: User) -> list[TokenRecord]:
    """The newest first."""
    return list(AuthToken.objects.filter(user=user).order_by("-created"))
