"""Middleware that traces each request in a span with the name of its route. The span contains
neither path nor query, and a caller cannot choose the trace.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from controlplane.audit.middleware import AroundRequest
from controlplane.monitoring.middleware import get_method_label, get_route_name
from workers.log_lines import current_request_id
from workers.traces import span


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
