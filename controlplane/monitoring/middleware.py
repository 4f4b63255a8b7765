"""Middleware that counts requests by the name of the route, and traces each request in a span with
that name. A path is never a label, because clients can send any number of different paths. A span
contains neither path nor query, and a caller cannot choose the trace.
"""

from __future__ import annotations

import time
from contextvars import ContextVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from controlplane.audit.middleware import AroundRequest
from controlplane.instruments import HTTP_REQUESTS, HTTP_SECONDS
from workers.log_lines import current_request_id
from workers.traces import span

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


class TraceRequestsMiddleware(AroundRequest):
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        method = get_method_label(request)
        with span(f"request {method}", kind="server") as current:
            response = super().__call__(request)
            current.note(
                {
                    "http.request.method": method,
                    "http.route": get_route_name(request),
                    "http.response.status_code": response.status_code,
                    "sluice.request_id": current_request_id.get(),
                }
            )
        return response
