"""Control characters in the address of a request, in its query and in its form. They are refused
once, before any view: PostgreSQL stores no NUL, and no name or text here has one of the others.
"""

from __future__ import annotations

import re
from typing import Final

from django.core.exceptions import BadRequest
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from controlplane.api.middleware import PREFIX
from controlplane.api.problems import MEDIA_TYPE, problem
from controlplane.audit.middleware import AroundRequest
from controlplane.uploads.places import is_upload_address
from workers.log_lines import current_request_id

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BUT_SPACES: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""A value may have several lines, as a statement has."""


class ControlCharactersMiddleware(AroundRequest):
    """Answers 400, naming where such a character stands and never the text itself."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        where = _damaged_part(request)
        if not where:
            return self._get_response(request)
        detail = f"a control character stands in {where}"
        if request.path_info.startswith(PREFIX):
            body = problem("invalid_request", detail, {"request_id": current_request_id.get()})
            return JsonResponse(body, status=400, content_type=MEDIA_TYPE)
        raise BadRequest(detail)


def _damaged_part(request: HttpRequest) -> str:
    """The part of the request that has such a character; empty where none has."""
    if _CONTROL.search(request.path_info):
        return "the address"
    # A file is read by its view alone, after its checks.
    is_file = request.method == "POST" and is_upload_address(request.path_info)
    for given in (request.GET,) if is_file else (request.GET, request.POST):
        for name, values in given.lists():
            if _CONTROL.search(name):
                return "the name of a parameter"
            if any(_BUT_SPACES.search(str(value)) for value in values):
                return f"the parameter {name[:80]}"
    return ""
