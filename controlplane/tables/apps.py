"""Django app."""

from __future__ import annotations

from django.apps import AppConfig


class TablesConfig(AppConfig):
    name = "controlplane.tables"
    label = "tables"
