"""From codes to HTTP, in this one place. Every error has the body {code, message, values}."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import set_rollback

from controlplane.api.bodies import BodyTooLarge
from controlplane.errors import ControlPlaneError, QueueUnavailable

log = logging.getLogger(__name__)

_NO_PASSWORDS = (
    "the API takes no password: sign in at /login/ and use that session, or make a token by "
    "`manage.py token create <user>` and send it as `Authorization: Token <token>`"
)
STATUS_OF_CODE: Mapping[str, int] = {
    "refused": status.HTTP_400_BAD_REQUEST,
    "invalid_request": status.HTTP_400_BAD_REQUEST,
    "idempotency_key_reused": status.HTTP_422_UNPROCESSABLE_ENTITY,
    "not_allowed_now": status.HTTP_409_CONFLICT,
    "plan_changed": status.HTTP_409_CONFLICT,
    "queue_unavailable": status.HTTP_503_SERVICE_UNAVAILABLE,
    "storage_unavailable": status.HTTP_503_SERVICE_UNAVAILABLE,
}


def answer(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """The response for `error`; None leaves it to Django, which hides it behind a plain 500."""
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied(str(error) or None)
    elif isinstance(error, RequestDataTooBig):
        error = BodyTooLarge("the body is too large")
    elif isinstance(error, RedisError | OperationalError):
        log.error("Redis does not answer: %s", error)
        error = QueueUnavailable()
    if isinstance(error, ControlPlaneError):
        set_rollback()
        values = {name: _plain(value) for name, value in error.values.items()}
        return _response(STATUS_OF_CODE[error.code], error.code, error.message, values)
    if not isinstance(error, exceptions.APIException):
        return None
    set_rollback()
    if isinstance(error, exceptions.NotAuthenticated) and _tries_password(context):
        error = exceptions.NotAuthenticated(_NO_PASSWORDS)
    response = _response(error.status_code, *_described(error))
    if challenge := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = challenge
    if wait := getattr(error, "wait", None):
        response["Retry-After"] = str(int(wait) + 1)
    return response


def _tries_password(context: Mapping[str, Any]) -> bool:
    header = str(context["request"].META.get("HTTP_AUTHORIZATION", ""))
    return header.lower().startswith("basic")


def _described(error: exceptions.APIException) -> tuple[str, str, dict[str, Any]]:
    if isinstance(error, exceptions.ValidationError):
        return "invalid_request", "the request has wrong values", {"fields": error.detail}
    code = error.get_codes()
    return (code if isinstance(code, str) else error.default_code), str(error.detail), {}


def _response(status_code: int, code: str, message: str, values: Mapping[str, Any]) -> Response:
    return Response({"code": code, "message": message, "values": values}, status=status_code)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return str(value)
