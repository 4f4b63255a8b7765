"""Addresses under a slug that a table had before lead on to the slug that it has now.

Pages, fragments, live streams and the API alike, with their query, method and body (307). Only
whoever may see the table is led on; all others get the answer that there is nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse

from controlplane.tables.access import Permission, access_table
from controlplane.tables.models import FormerSlug


def slug_now(slug: str) -> str:
    """The slug of the table that had this one; empty where none had it. A slug that a table has now
    is nobody's former one.
    """
    rows = FormerSlug.objects.filter(slug=slug)
    return rows.values_list("table__slug", flat=True).first() or ""


class FormerSlugMiddleware:
    """Asks the database only where nothing was found under a slug."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        return _led_on(request) or response if _is_lost(request, response) else response


def _is_lost(request: HttpRequest, response: HttpResponseBase) -> bool:
    match = request.resolver_match
    return response.status_code == 404 and match is not None and "slug" in match.kwargs


def _led_on(request: HttpRequest) -> HttpResponse | None:
    match = request.resolver_match
    assert match is not None, request.path
    slug = slug_now(match.kwargs["slug"])
    if not slug:
        return None
    try:
        access_table(getattr(request, "user", AnonymousUser()), slug, Permission.VIEW)
    except (Http404, PermissionDenied):
        return None
    address = reverse(match.view_name, kwargs={**match.kwargs, "slug": slug})
    query = request.META.get("QUERY_STRING", "")
    where = f"{address}?{query}" if query else address
    return HttpResponse(status=307, headers={"Location": where})
