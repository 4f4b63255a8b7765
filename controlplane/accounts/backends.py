"""Password login with a limit on failures, which applies on every page and path with a login."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from controlplane.accounts.throttle import begin_attempt, refund_attempt


class ThrottledBackend(ModelBackend):
    """Password backend that allows five failures per minute for one name from one address, with
    further limits per name and per address. Above a limit no password is checked.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        if username is None or password is None:
            return None  # Another way to sign in, without a password.
        address = str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""
        counter_keys = begin_attempt(username, address)
        if counter_keys is None:
            raise PermissionDenied("too many failed logins; wait a minute")
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is not None:
            refund_attempt(counter_keys)
        return user
