"""Answers of the API carry an ETag, and whoever has that answer already gets 304 without a body.

The ETag is weak (RFC 9110, 8.8.3) and made of the answer itself: the server does the same work, the
bytes are spared. Answers are private: no cache between two people may keep one.
"""

from __future__ import annotations

from hashlib import sha256

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response

from controlplane.api.middleware import PREFIX
from controlplane.audit.middleware import AroundRequest


class ConditionalAnswersMiddleware(AroundRequest):
    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_ours = request.path.startswith(PREFIX) and request.method in ("GET", "HEAD")
        if not (is_ours and response.status_code == 200 and isinstance(response, HttpResponse)):
            return response
        response.headers.setdefault("Cache-Control", "private, no-cache")
        etag = f'W/"{sha256(response.content).hexdigest()[:32]}"'
        response.headers["ETag"] = etag
        unchanged = get_conditional_response(request, etag=etag, response=response)
        return response if unchanged is None else unchanged
