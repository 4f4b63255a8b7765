"""The person behind a request."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from rest_framework.request import Request


def actor(request: Request) -> User:
    """The signed-in user. Raises PermissionDenied for workers and for nobody."""
    if not isinstance(request.user, User):
        raise PermissionDenied("this needs a user")
    return request.user
