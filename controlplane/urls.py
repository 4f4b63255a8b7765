"""Every address of the site: the API here, the pages from `web`."""

from __future__ import annotations

from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [path("api/v1/", include("controlplane.api.urls"))]
if find_spec("web") and find_spec("web.urls"):
    urlpatterns.append(path("", include("web.urls")))
