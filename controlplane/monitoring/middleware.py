"""Counts each request by the name of its route. A path never becomes a label: anybody can make up
as many of them as he likes.
"""

from __future__ import annotations

import time
from contextvars import ContextVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from controlplane.audit.middleware import AroundRequest
from controlplane.instruments import HTTP_REQUESTS, HTTP_SECONDS

NO_ROUTE = "none"
"""Of a request that no route took: an unknown path, or one that was refused before."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_began_s: ContextVar[float] = ContextVar("request_began_s", default=0.0)


def route_of(request: HttpRequest) -> str:
    """The name of its route, once it was resolved."""
    match = request.resolver_match
    return match.view_name if match is not None else NO_ROUTE


def known_method(request: HttpRequest) -> str:
    return request.method if request.method in _METHODS else "other"


class CountRequestsMiddleware(AroundRequest):
    def _begin(self, request: HttpRequest) -> None:
        _began_s.set(time.monotonic())

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        route, method = route_of(request), known_method(request)
        HTTP_REQUESTS.labels(route, method, str(response.status_code)).inc()
        HTTP_SECONDS.labels(route).observe(time.monotonic() - _began_s.get())
        return response
