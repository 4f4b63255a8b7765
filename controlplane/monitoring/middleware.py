"""Middleware that counts requests by the name of the route. A path is never a label, because
clients can send any number of different paths.
"""

from __future__ import annotations

import time
from contextvars import ContextVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from controlplane.audit.middleware import AroundRequest
from controlplane.instruments import HTTP_REQUESTS, HTTP_SECONDS

NO_ROUTE = "none"
"""The label of requests without a route: unknown paths, and requests rejected earlier."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_began_s: ContextVar[float] = ContextVar("request_began_s", default=0.0)


def get_route_name(request: HttpRequest) -> str:
    """Return the name of the route of a resolved request."""
    match = request.resolver_match
    return match.view_name if match is not None else NO_ROUTE


def get_method_label(request: HttpRequest) -> str:
    return request.method if request.method in _METHODS else "other"


class CountRequestsMiddleware(AroundRequest):
    def _begin(self, request: HttpRequest) -> None:
        _began_s.set(time.monotonic())

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        route, method = get_route_name(request), get_method_label(request)
        HTTP_REQUESTS.labels(route, method, str(response.status_code)).inc()
        HTTP_SECONDS.labels(route).observe(time.monotonic() - _began_s.get())
        return response
