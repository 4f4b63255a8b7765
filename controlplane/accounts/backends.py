"""Password login that slows guessing down, on whatever page or path the login happens."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

ATTEMPTS_MAX = 5
WINDOW_S = 60


class ThrottledBackend(ModelBackend):
    """Five failures per minute for one name from one address; after that nothing is tried until the
    minute ends.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        key = _key(username, request)
        if int(cache.get(key, 0)) >= ATTEMPTS_MAX:
            raise PermissionDenied("too many failed logins; wait a minute")
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is None:
            cache.add(key, 0, timeout=WINDOW_S)
            cache.incr(key)
        return user


def _key(username: str | None, request: HttpRequest | None) -> str:
    """Hashed, because a cache takes no blanks in a key and a name may be any text."""
    address = str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""
    return "login:" + sha256(f"{username}\n{address}".encode()).hexdigest()
