"""Who calls: a session, a personal token, or a worker; and what each may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from knox.auth import TokenAuthentication as KnoxTokenAuthentication
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from controlplane.accounts.roles import is_admin, is_auditor, is_operator, is_viewer
from workers.reporting.tokens import operation_of

if TYPE_CHECKING:
    # REST framework imports this module while its own views are being imported.
    from rest_framework.views import APIView


class TokenAuthentication(KnoxTokenAuthentication):
    """`Authorization: Token <token>`: hashed in the database, revoked by deleting it."""


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
        operation_id = operation_of(given, settings.SLUICE_WORKER_TOKEN)
        if operation_id is None:
            raise AuthenticationFailed("the worker token is wrong")
        return Worker(operation_id), None

    def authenticate_header(self, request: Request) -> str:
        return "Worker"


class IsViewer(BasePermission):
    message = "this needs the role viewer"

    def has_permission(self, request: Request, view: APIView) -> bool:
        return is_viewer(request.user)


class IsAdmin(BasePermission):
    message = "this needs the role admin"

    def has_permission(self, request: Request, view: APIView) -> bool:
        return is_admin(request.user)


class IsAuditor(BasePermission):
    message = "this needs the role auditor"

    def has_permission(self, request: Request, view: APIView) -> bool:
        return is_auditor(request.user)


class IsOperator(BasePermission):
    message = "this needs the role operator"

    def has_permission(self, request: Request, view: APIView) -> bool:
        return is_operator(request.user)


class IsOperatorToWrite(BasePermission):
    """Reading is a viewer's, anything else an operator's."""

    message = "this needs the role operator"

    def has_permission(self, request: Request, view: APIView) -> bool:
        allowed = is_viewer if request.method in SAFE_METHODS else is_operator
        return allowed(request.user)


class IsAdminToWrite(BasePermission):
    """Reading is a viewer's, anything else an admin's."""

    message = "this needs the role admin"

    def has_permission(self, request: Request, view: APIView) -> bool:
        allowed = is_viewer if request.method in SAFE_METHODS else is_admin
        return allowed(request.user)


class IsWorker(BasePermission):
    message = "only workers report"

    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.user, Worker)
