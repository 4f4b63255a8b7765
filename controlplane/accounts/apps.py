"""Django app. Sees to it that the two roles exist, also after a database was emptied."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.apps.registry import Apps
from django.db.models.signals import post_migrate

ROLES = ("viewer", "admin")


class AccountsConfig(AppConfig):
    name = "controlplane.accounts"
    label = "accounts"

    def ready(self) -> None:
        # `flush` empties what the migration made, and runs no migration again.
        post_migrate.connect(_ensure_roles, sender=self)


def _ensure_roles(*, apps: Apps, using: str, **_: Any) -> None:
    group = apps.get_model("auth", "Group")
    for name in ROLES:
        group.objects.using(using).get_or_create(name=name)
