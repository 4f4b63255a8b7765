"""Who calls: a session, a personal token, or a worker; and what each may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from knox.auth import TokenAuthentication as KnoxTokenAuthentication
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from controlplane.accounts.access_levels import READ
from controlplane.accounts.models import Token
from controlplane.accounts.roles import is_admin, is_auditor, limit_to_token
from controlplane.accounts.tokens import find_token
from controlplane.people.actions.tokens import do_record_token_use
from controlplane.tables.access import (
    Permission,
    access_table,
    begin_visit,
    may_everywhere,
    may_see_some,
)
from controlplane.tables.grants import may_grant_somewhere
from workers.reporting.tokens import find_operation

if TYPE_CHECKING:
    # REST framework imports this module while its own views are being imported.
    from rest_framework.views import APIView


class TokenAuthentication(KnoxTokenAuthentication):
    """`Authorization: Token <token>`: hashed in the database, revoked by deleting it.

    Whatever is asked of its owner's roles from here on is answered within the token's limits. One
    that may only read comes to no view by another method than a reading one, unless the view says
    of itself that it `changes_nothing`.
    """

    def authenticate(self, request: Request) -> tuple[User, Token] | None:
        """Sign in by a token. Raises AuthenticationFailed, and PermissionDenied for a change by a
        token that only reads.
        """
        signed_in: tuple[User, Token] | None = super().authenticate(request)
        if signed_in is None:
            return None
        user, token = signed_in
        view: Any = request.parser_context["view"]
        is_reading = request.method in SAFE_METHODS or getattr(view, "changes_nothing", False)
        if token.scope == READ and not is_reading:
            raise PermissionDenied("this token may only read")
        limit_to_token(user, token.limits)
        do_record_token_use(token)
        return user, token

    def authenticate_credentials(self, token: bytes) -> tuple[User, Token]:
        """As the library does, and by the library where anything is unusual: what it refuses, and
        tokens that are over, which it deletes. Raises AuthenticationFailed.
        """
        try:
            bearer = find_token(token.decode())
        except (TypeError, ValueError):  # It is no secret.
            bearer = None
        known: tuple[User, Token] = (
            self.validate_user(bearer) if bearer else super().authenticate_credentials(token)
        )
        return known


@dataclass(frozen=True, slots=True)
class Worker:
    """Whoever has the token of an operation. No user, so no role and no table opens for it."""

    operation_id: str
    """The only one that it may speak of."""
    is_authenticated: bool = True
    is_active: bool = True
    pk: None = None


class WorkerAuthentication(BaseAuthentication):
    """`Authorization: Worker <token>`, the token of one operation. Without a configured worker
    token nobody passes.
    """

    def authenticate(self, request: Request) -> tuple[Worker, None] | None:
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != b"worker":
            return None
        given = words[1].decode("latin-1") if len(words) == 2 else ""
        operation_id = find_operation(given, settings.SLUICE_WORKER_TOKEN)
        if operation_id is None:
            raise AuthenticationFailed("invalid worker token")
        return Worker(operation_id), None

    def authenticate_header(self, request: Request) -> str:
        return "Worker"


class NeedsRole(BasePermission):
    """On the table that the address names; everywhere where it names none, and to read where it
    names none, anywhere: what is listed there is filtered.

    A table that the caller may not see is not found here already, whatever else the request lacks.
    """

    to_read = Permission.VIEW
    to_change = Permission.VIEW
    message = ""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Whether the user may. Raises Http404, PermissionDenied for the table of the address."""
        permission = self.to_read if request.method in SAFE_METHODS else self.to_change
        self.message = f"this requires the {permission.role} role"
        begin_visit(request.user)
        if not may_see_some(request.user):
            return False
        slug = view.kwargs.get("slug")
        if slug is not None:
            access_table(request.user, slug, permission)
            return True
        return permission is Permission.VIEW or may_everywhere(request.user, permission)


class IsViewer(NeedsRole):
    """Nothing here is more than reading."""


class IsAuditor(BasePermission):
    message = "this requires the auditor role"

    def has_permission(self, request: Request, view: APIView) -> bool:
        return is_auditor(request.user)


class IsOperator(NeedsRole):
    """Reading what stands here is an operator's, too."""

    to_read = to_change = Permission.OPERATE


class IsAdmin(NeedsRole):
    """Reading what stands here is an admin's, too."""

    to_read = to_change = Permission.ADMINISTER


class IsOperatorToWrite(NeedsRole):
    """Reading is a viewer's, anything else an operator's."""

    to_change = Permission.OPERATE


class IsAdminToWrite(NeedsRole):
    """Reading is a viewer's, anything else an admin's."""

    to_change = Permission.ADMINISTER


class IsGranterToWrite(NeedsRole):
    """Reading is a viewer's, anything else that of whoever is an admin of some namespace."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not super().has_permission(request, view):
            return False
        self.message = "this requires the admin role in a namespace"
        return request.method in SAFE_METHODS or may_grant_somewhere(request.user)


class KeepsPeople(BasePermission):
    """Auditors read who there is; admins everywhere change it."""

    message = ""

    def has_permission(self, request: Request, view: APIView) -> bool:
        is_reading = request.method in SAFE_METHODS
        self.message = f"this requires the {'auditor' if is_reading else 'admin'} role everywhere"
        return is_auditor(request.user) if is_reading else is_admin(request.user)


class IsWorker(BasePermission):
    message = "only workers report"

    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.user, Worker)
