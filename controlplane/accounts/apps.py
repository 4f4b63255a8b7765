"""Django app. Creates the role groups, also after a database was emptied."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate

from controlplane.accounts.access_levels import ROLES


class AccountsConfig(AppConfig):
    name = "controlplane.accounts"
    label = "accounts"

    def ready(self) -> None:
        # `flush` deletes the groups of the migration and does not run migrations again. The sender
        # is the app of the groups, whose tables exist at that time.
        post_migrate.connect(_ensure_roles, sender=apps.get_app_config("auth"))


def _ensure_roles(*, using: str, **options: Any) -> None:
    group = options.get("apps", apps).get_model("auth", "Group")
    for name in ROLES:
        group.objects.using(using).get_or_create(name=name)
