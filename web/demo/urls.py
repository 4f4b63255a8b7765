"""Addresses of the demo's buttons."""

from __future__ import annotations

from django.urls import path

from web.demo import pages

urlpatterns = [
    path("t/<slug:slug>/demo/start", pages.restart, name="demo-start"),
    path("t/<slug:slug>/demo/<slug:button>", pages.demo, name="demo"),
]
