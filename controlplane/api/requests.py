"""The person behind a request, and the key that makes it one."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from rest_framework.request import Request

from controlplane.errors import InvalidRequest

IDEMPOTENCY_KEY = "Idempotency-Key"
KEY_CHARS_MAX = 100


def actor(request: Request) -> User:
    """The signed-in user. Raises PermissionDenied for workers and for nobody."""
    if not isinstance(request.user, User):
        raise PermissionDenied("this requires a user: sign in or send a token")
    return request.user


def idempotency_key(request: Request) -> str | None:
    """The header's. Raises InvalidRequest for one that is too long or not printable."""
    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is not None and not (0 < len(key) <= KEY_CHARS_MAX and key.isprintable()):
        raise InvalidRequest("the idempotency key must be printable and not too long")
    return key
