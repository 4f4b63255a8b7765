"""From errors to problem details, in this one place; `problems` lists all that there are."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError
from django.db import OperationalError as DatabaseError
from django.http import Http404
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from controlplane.api.bodies import BodyTooLarge
from controlplane.api.problems import MEDIA_TYPE, problem
from controlplane.errors import (
    DATABASE_RETRY_AFTER_S,
    ControlPlaneError,
    DatabaseUnavailable,
    QueueUnavailable,
)
from controlplane.live.seats import RETRY_AFTER_S
from workers.installation import format_command

log = logging.getLogger(__name__)

_TOO_MANY = 429
_NO_PASSWORDS = (
    "the API takes no password: sign in at /login/ and use that session, or make a token by "
    f"`{format_command('token create <user>')}` and send it as `Authorization: Token <token>`"
)


ANSWERED = (
    *(ControlPlaneError, exceptions.APIException, Http404, PermissionDenied, RequestDataTooBig),
    *(DatabaseError, InterfaceError, RedisError, OperationalError),
)
"""What `answer` has a response for."""


def answer(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """The response for `error`; None leaves it to Django, which hides it behind a plain 500."""
    if isinstance(error, Http404):
        error = exceptions.NotFound(str(error) or None)
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied(str(error) or None)
    elif isinstance(error, RequestDataTooBig):
        error = BodyTooLarge("the body is too large")
    elif isinstance(error, DatabaseError | InterfaceError):
        log.error("the database does not answer: %s", error)
        error = DatabaseUnavailable()
    elif isinstance(error, RedisError | OperationalError):
        log.error("Redis does not answer: %s", error)
        error = QueueUnavailable()
    if isinstance(error, ControlPlaneError):
        set_rollback()
        values = {name: _plain(value) for name, value in error.values.items()}
        response = _response(error.code, error.message, values)
        if response.status_code == _TOO_MANY:
            response["Retry-After"] = str(RETRY_AFTER_S)
        elif isinstance(error, DatabaseUnavailable):
            response["Retry-After"] = str(DATABASE_RETRY_AFTER_S)
        return response
    if not isinstance(error, exceptions.APIException):
        return None
    set_rollback()
    if isinstance(error, exceptions.NotAuthenticated) and _tries_password(context):
        error = exceptions.NotAuthenticated(_NO_PASSWORDS)
    response = _response(*_described(error))
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
    return error.default_code, str(error.detail), {}


def _response(code: str, detail: str, values: Mapping[str, Any]) -> Response:
    body = problem(code, detail, values)
    return Response(body, status=body["status"], content_type=MEDIA_TYPE)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return str(value)
