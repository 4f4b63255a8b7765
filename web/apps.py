"""The Django application that holds the pages."""

from __future__ import annotations

from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "web"
    verbose_name = "Dashboard"

    def ready(self) -> None:
        """Whoever signs in has times written as he chose."""
        from django.contrib.auth.signals import user_logged_in

        from web.time_zones import choice_at_sign_in

        user_logged_in.connect(choice_at_sign_in, dispatch_uid="web.time_zones")
