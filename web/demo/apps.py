"""The app of the demo's pages. What it adds to the site, it adds here."""

from __future__ import annotations

from django.apps import AppConfig


class DemoPagesConfig(AppConfig):
    name = "web.demo"
    label = "demo_pages"

    def ready(self) -> None:
        from web.additions import (
            HeadPart,
            Strip,
            add_head_part,
            add_strip,
            add_urls,
            set_first_step,
        )

        add_urls("web.demo.urls")
        set_first_step("demo/first_step.html")
        add_strip(
            Strip(
                template="demo/strip.html",
                style="web/css/demo.css",
                build="web.demo.story.strip_of",
            )
        )
        add_head_part(
            HeadPart(
                name="demo",
                template="demo/buttons.html",
                style="web/css/demo.css",
                refreshed_on="operations",
                build="web.demo.pages.buttons",
            )
        )
