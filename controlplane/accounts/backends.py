"""Password login that slows guessing down, on whatever page or path the login happens."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from controlplane.accounts.throttle import begin_attempt, give_back


class ThrottledBackend(ModelBackend):
    """Five failures per minute for one name from one address, and bounds for a name and for an
    address alone; beyond them nothing is tried until time has passed.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        if username is None or password is None:
            return None  # Another way to sign in, which is no attempt at a password.
        address = str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""
        counted = begin_attempt(username, address)
        if counted is None:
            raise PermissionDenied("too many failed logins; wait a minute")
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is not None:
            give_back(counted)
        return user
