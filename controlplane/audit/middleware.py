"""Every request gets an id that its answer, its log lines and its audit rows carry."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from workers.log_lines import current_request_id

HEADER = "X-Request-ID"
_GIVEN = re.compile(r"\A[A-Za-z0-9-]{8,64}\Z")


class AroundRequest:
    """A middleware that does something before and after. None of ours works in the world of
    coroutines: with all of them here a request changes to its thread once, where each of Django's
    own would change twice.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        self._begin(request)
        return self._end(request, self._get_response(request))

    def _begin(self, request: HttpRequest) -> None:
        """Before anything is answered."""

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """The answer that goes out, by default the one that came."""
        return response


class RequestIdMiddleware(AroundRequest):
    def _begin(self, request: HttpRequest) -> None:
        given = request.headers.get(HEADER, "")
        current_request_id.set(given if _GIVEN.match(given) else uuid.uuid4().hex)

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response.headers[HEADER] = current_request_id.get()
        return response
