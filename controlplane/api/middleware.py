"""Every error below /api/ is JSON, also one that no view of the API was asked about: an unknown
path, a host that is not ours, a failure on our side.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from controlplane.api.problems import MEDIA_TYPE, problem
from controlplane.audit.middleware import AroundRequest
from controlplane.errors import DatabaseUnavailable
from workers.log_lines import current_request_id

PREFIX = "/api/"
_SAID: Mapping[int, tuple[str, str]] = {
    400: ("invalid_request", "the request cannot be understood"),
    403: ("permission_denied", "this is not allowed"),
    404: ("not_found", "there is nothing at this address; /api/v1/docs/ lists all that there is"),
    405: ("method_not_allowed", "this address does not take that method"),
    413: ("too_large", "the body is too large"),
    503: ("database_unavailable", DatabaseUnavailable().message),
}
_OURS = ("internal", "this failed on our side; the node's web log has it under the request id")


class JsonErrorsMiddleware(AroundRequest):
    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return _as_json(request, response)


def _as_json(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    is_error = response.status_code >= 400
    kind = response.headers.get("Content-Type", "")
    if not (is_error and request.path.startswith(PREFIX)) or "json" in kind:
        return response
    code, detail = _SAID.get(response.status_code, _OURS)
    values = {"request_id": current_request_id.get()}
    answer = JsonResponse(
        problem(code, detail, values), status=response.status_code, content_type=MEDIA_TYPE
    )
    answer.cookies = response.cookies
    for name in ("Allow", "Retry-After"):
        if name in response.headers:
            answer.headers[name] = response.headers[name]
    return answer
