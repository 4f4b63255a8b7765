"""Answers go out as gzip to whoever takes that: pages are mostly markup that repeats itself."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

from controlplane.audit.middleware import AroundRequest

_gzip = GZipMiddleware(lambda request: HttpResponse())


class CompressionMiddleware(AroundRequest):
    """Django's, which hides the size of what an answer says (BREACH), for whole answers only: of a
    stream each event leaves at once and as it is.
    """

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not isinstance(response, HttpResponse) or response.streaming:
            return response
        return _gzip.process_response(request, response)
