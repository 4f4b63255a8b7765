"""Every address of the site: the API, what monitoring asks, the pages from `web`."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include("controlplane.api.urls")),
    path("", include("controlplane.monitoring.urls")),
    path("", include("web.urls")),
]

handler404 = "web.pages.not_found.not_found"
handler500 = "web.refusals.answer_error"
