"""The page for an address that does not exist. It redirects where only the last slash is wrong."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import Resolver404, is_valid_path
from django.views.defaults import page_not_found


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Redirect `/operations/` to `/operations`; `APPEND_SLASH` handles the opposite case."""
    shorter = request.path_info.rstrip("/")
    is_lookup = request.method in ("GET", "HEAD") and isinstance(exception, Resolver404)
    if is_lookup and shorter != request.path_info and is_valid_path(shorter):
        query = request.META.get("QUERY_STRING", "")
        return HttpResponsePermanentRedirect(f"{shorter}?{query}" if query else shorter)
    return page_not_found(request, exception)
