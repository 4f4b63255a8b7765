"""Password login that slows guessing down, on whatever page or path the login happens."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

ATTEMPTS_MAX = 5
WINDOW_S = 60


class ThrottledBackend(ModelBackend):
    """Five failures per minute for one name from one address; after that nothing is tried until the minute ends."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> AbstractBaseUser | None:
        key = f"login:{username}:{_address(request)}"
        if int(cache.get(key, 0)) >= ATTEMPTS_MAX:
            raise PermissionDenied("too many failed logins; wait a minute")
        user = super().authenticate(request, username=username, password=password, **more)
        if user is None:
            cache.add(key, 0, timeout=WINDOW_S)
            cache.incr(key)
        return user


def _address(request: HttpRequest | None) -> str:
    return str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""
