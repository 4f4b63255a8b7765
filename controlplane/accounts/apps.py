"""Django app. Sees to it that the roles exist, also after a database was emptied."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate

from controlplane.accounts.role_names import ROLES


class AccountsConfig(AppConfig):
    name = "controlplane.accounts"
    label = "accounts"

    def ready(self) -> None:
        # `flush` empties what the migration made, and runs no migration again. The signal is that
        # of the groups' own app, whose tables are there by then.
        post_migrate.connect(_ensure_roles, sender=apps.get_app_config("auth"))


def _ensure_roles(*, using: str, **given: Any) -> None:
    group = given.get("apps", apps).get_model("auth", "Group")
    for name in ROLES:
        group.objects.using(using).get_or_create(name=name)
