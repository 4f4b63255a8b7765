"""Live events: an open answer that says which kinds of rows change, so that nobody has to ask again
and again. What changed is asked for at the same addresses as ever.
"""

from __future__ import annotations

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from controlplane.accounts.models import Token
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.live.stream import CONTENT_TYPE, stream_to
from controlplane.live.watching import Listener, watched_by


class EventStreamRenderer(JSONRenderer):
    """Takes whoever accepts a stream of events; errors are problem details all the same."""

    media_type = CONTENT_TYPE
    format = "events"


class EventsApi(ApiView):
    """`start` once every later change is heard, `ping` every four seconds, `change` with the kinds
    of rows that changed: `data: {"kinds": ["instants", "writers"]}`. Of every table that the caller
    sees. Ends after ten minutes, and when roles or the token change: come back then.
    """

    renderer_classes = [EventStreamRenderer]

    @extend_schema(operation_id="events", responses={(200, CONTENT_TYPE): str})
    def get(self, request: Request) -> HttpResponseBase:
        return _stream(request, "")


class TableEventsApi(ApiView):
    """The same of one table. `gone` when it has another slug or is not registered any more."""

    renderer_classes = [EventStreamRenderer]

    @extend_schema(operation_id="tables_events", responses={(200, CONTENT_TYPE): str})
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        return _stream(request, slug)


def _stream(request: Request, slug: str) -> HttpResponseBase:
    token = request.auth.pk if isinstance(request.auth, Token) else ""
    listener = Listener(actor(request).pk, token=token, slug=slug)
    return stream_to(listener, watched_by(listener))
