"""Every request gets an id that its answer, its log lines and its audit rows carry."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from workers.log_lines import current_request_id

HEADER = "X-Request-ID"
_GIVEN = re.compile(r"\A[A-Za-z0-9-]{8,64}\Z")


class EitherWorldMiddleware:
    """Works in both worlds, so that an ASGI server needs no thread for it."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if self._is_async:
            return self._answer_later(request)  # type: ignore[return-value]  # a coroutine, as Django expects here
        self._begin(request)
        return self._end(request, self._get_response(request))

    async def _answer_later(self, request: HttpRequest) -> HttpResponseBase:
        self._begin(request)
        return self._end(request, await self._get_response(request))  # type: ignore[misc]  # a coroutine function in this branch

    def _begin(self, request: HttpRequest) -> None:
        """Before anything is answered."""

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """The answer that goes out, by default the one that came."""
        return response


class RequestIdMiddleware(EitherWorldMiddleware):
    def _begin(self, request: HttpRequest) -> None:
        given = request.headers.get(HEADER, "")
        current_request_id.set(given if _GIVEN.match(given) else uuid.uuid4().hex)

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response.headers[HEADER] = current_request_id.get()
        return response
