"""Middleware that gives each request an id, for its answer, its log lines and its audit rows."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from workers.log_lines import current_request_id

HEADER = "X-Request-ID"
_VALID_ID = re.compile(r"\A[A-Za-z0-9-]{8,64}\Z")


class AroundRequest:
    """A middleware with a step before and a step after the request. All of ours are synchronous,
    so a request changes to its thread once, not twice per middleware.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        self._begin(request)
        return self._end(request, self._get_response(request))

    def _begin(self, request: HttpRequest) -> None:
        """Run before the view."""

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Return the response to send, by default the one of the view."""
        return response


class RequestIdMiddleware(AroundRequest):
    def _begin(self, request: HttpRequest) -> None:
        request_id = request.headers.get(HEADER, "")
        current_request_id.set(request_id if _VALID_ID.match(request_id) else uuid.uuid4().hex)

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response.headers[HEADER] = current_request_id.get()
        return response
