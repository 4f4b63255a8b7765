"""The live stream of a browser tab, by its session. A page fetches its own fragments again at each
change.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET

from controlplane.live.seats import RETRY_AFTER_S, NoSeat, NoStream
from controlplane.live.stream import stream_to
from controlplane.live.watching import Listener, watched_by


@require_GET
def table_events(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Changes of one table."""
    return _answer(request, slug)


@require_GET
def all_events(request: HttpRequest) -> HttpResponseBase:
    """Changes of every table that the listener sees."""
    return _answer(request, "")


def _answer(request: HttpRequest, slug: str) -> HttpResponseBase:
    if not request.user.is_authenticated:
        return HttpResponse("sign in first", status=401)
    listener = Listener(request.user.pk, slug=slug)
    try:
        watched = watched_by(listener)
    except PermissionDenied as error:
        return HttpResponse(str(error), status=403)
    except Http404 as error:
        return HttpResponse(str(error), status=404)
    try:
        return stream_to(listener, watched)
    except (NoStream, NoSeat) as full:
        status = 429 if isinstance(full, NoSeat) else 503
        return HttpResponse(str(full), status=status, headers={"Retry-After": str(RETRY_AFTER_S)})
