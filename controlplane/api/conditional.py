"""Answers of the API carry an ETag, and whoever has that answer already gets 304 without a body.

The ETag is weak (RFC 9110, 8.8.3) and made of the answer itself: the server does the same work, the
bytes are spared. Some views make a weak one of their own, of the rows behind the answer, which
spares the work as well (`known_answers`). That of an object that people edit is strong, and begins
with its state, which is the part that `if_match` compares.
"""

from __future__ import annotations

from hashlib import sha256

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response

from controlplane.api.known_answers import CACHE_CONTROL, WEAK
from controlplane.api.middleware import PREFIX
from controlplane.audit.middleware import AroundRequest

_QUOTE = '"'


class ConditionalAnswersMiddleware(AroundRequest):
    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_ours = request.path.startswith(PREFIX) and request.method in ("GET", "HEAD")
        if not (is_ours and response.status_code == 200 and isinstance(response, HttpResponse)):
            return response
        response.headers.setdefault("Cache-Control", CACHE_CONTROL)
        etag = _etag(response)
        response.headers["ETag"] = etag
        unchanged = get_conditional_response(request, etag=etag, response=response)
        return response if unchanged is None else unchanged


def _etag(response: HttpResponse) -> str:
    by_view = response.headers.get("ETag", "")
    if by_view.startswith(WEAK):
        return by_view
    digest = sha256(response.content).hexdigest()[:32]
    return f'"{by_view.strip(_QUOTE)}-{digest}"' if by_view else f'{WEAK}"{digest}"'
