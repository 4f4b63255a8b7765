"""Changes that hold only for the state that their sender saw (RFC 9110, 13.1.1).

An object that people edit is answered with an `ETag` of two parts, `"<state>-<answer>"`. The first
speaks of what people edit alone, so neither an age nor a count that moves by itself voids it. A
change with `If-Match` is refused once another came first; one without the header is as ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce, wraps
from hashlib import sha256
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection, transaction
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.errors import ControlPlaneError, InvalidRequest, StateChanged

if TYPE_CHECKING:
    from controlplane.api.views import ApiView

IF_MATCH = "If-Match"
_TAG_CHARS = 16
_HEADER_CHARS_MAX = 1_000
_SERIALIZATION_FAILURE = "40001"
_REFUSALS = (ControlPlaneError, APIException, Http404, PermissionDenied)
_Handler = TypeVar("_Handler", bound=Callable[..., Response])


def state_tag(view: ApiView, answer: Any) -> str:
    """A tag of what people edit of the object that `answer` shows."""
    state = [reduce(getitem, path.split("."), answer) for path in view.edited_fields]
    return sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:_TAG_CHARS]


def if_unchanged(handler: _Handler) -> _Handler:
    """For a method of a view with `edited_fields` and `get`: with `If-Match` it raises StateChanged
    unless the object is in the state of one of the header's tags.

    The look and the change are one transaction. On SQLite nobody writes in between; PostgreSQL
    refuses the change where anybody, on whichever way, changed the same rows since the look.
    """

    @wraps(handler)
    def guarded(view: ApiView, request: Request, **names: Any) -> Response:
        header = request.headers.get(IF_MATCH)
        if header is None:
            return handler(view, request, **names)
        wanted = _states(header)
        try:
            answer = _changed(view, handler, request, names, wanted)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", "") != _SERIALIZATION_FAILURE:
                raise
            raise _state_changed(request) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    described = extend_schema(
        parameters=[
            OpenApiParameter(
                IF_MATCH,
                str,
                OpenApiParameter.HEADER,
                description="The `ETag` of a `GET` of this address: the change is refused with 412 "
                "if somebody edited the object since. `*`: whatever its state is.",
            )
        ]
    )(guarded)
    return cast(_Handler, described)


def _changed(
    view: ApiView,
    handler: Callable[..., Response],
    request: Request,
    names: dict[str, Any],
    wanted: frozenset[str],
) -> Response | Exception:
    """The handler's answer; or its refusal, so that what it recorded of that stays."""
    is_first = not connection.in_atomic_block
    with transaction.atomic():
        if is_first and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        current: Any = view.get(request, **names)  # type: ignore[attr-defined]  # such views have it
        if wanted and state_tag(view, current.data) not in wanted:
            raise _state_changed(request)
        try:
            return handler(view, request, **names)
        except _REFUSALS as refusal:
            return refusal


def _states(header: str) -> frozenset[str]:
    """The first parts of the header's tags; none for `*`. Raises InvalidRequest.

    What compresses an answer on its way makes its tag a weak one: that is taken as well.
    """
    if header.strip() == "*":
        return frozenset()
    tags = [tag.strip().removeprefix("W/") for tag in header[:_HEADER_CHARS_MAX].split(",")]
    if not all(len(tag) > 2 and tag[0] == tag[-1] == '"' for tag in tags):
        raise InvalidRequest("If-Match must be an ETag in quotes, or *", header=header[:80])
    return frozenset(tag.strip('"').partition("-")[0] for tag in tags)


def _state_changed(request: Request) -> StateChanged:
    return StateChanged("somebody edited this since you read it", address=request.path)
