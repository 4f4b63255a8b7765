"""Personal API tokens: stored hashed, many per user, each with an end, revoked by deleting. Their
owner asks for that over the API, the shell for anybody.
"""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from knox.models import AuthToken

from controlplane.api.queries import TokenRecord
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.tables.access import may_see_some

DAYS_DEFAULT = 90
DAYS_MAX = 365


def do_create_token(user: User, *, days: int, by: str) -> tuple[TokenRecord, str]:
    """The stored row and the token itself, which nobody can read again.

    Raises InvalidRequest for its days, PermissionDenied for a user without a role.
    """
    if not 1 <= days <= DAYS_MAX:
        raise InvalidRequest(f"days must be 1 to {DAYS_MAX}", days=days)
    if not may_see_some(user):
        raise PermissionDenied(f"{user.get_username()} has no role, so a token would open nothing")
    with transaction.atomic():
        row, token = AuthToken.objects.create(user=user, expiry=timedelta(days=days))
        _record("token.create", user, row.token_key, by=by)
    return row, token


def do_revoke_token(user: User, token_key: str, *, by: str) -> bool:
    """False when this user has no such token."""
    with transaction.atomic():
        deleted, _ = AuthToken.objects.filter(user=user, token_key=token_key).delete()
        if deleted:
            _record("token.revoke", user, token_key, by=by)
    return bool(deleted)


def _record(what: str, user: User, token_key: str, *, by: str) -> None:
    details = {"user": user.get_username()}
    do_record(who=by, what=what, subject=token_key, result="done", details=details)
