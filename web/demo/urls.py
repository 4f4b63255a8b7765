"""Addresses of the demo's buttons."""

from __future__ import annotations

from django.urls import path

from web.demo import pages, story_pages

urlpatterns = [
    path("demo/story", story_pages.strip, name="demo-story"),
    path("demo/story/<slug:what>", story_pages.shape, name="demo-strip"),
    path("demo/steps/<slug:name>", story_pages.do_step, name="demo-step"),
    path("demo/reset", story_pages.reset, name="demo-reset"),
    path("t/<slug:slug>/demo/start", pages.restart, name="demo-start"),
    path("t/<slug:slug>/demo/<slug:button>", pages.demo, name="demo"),
]
