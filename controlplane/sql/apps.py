"""Django app."""

from __future__ import annotations

from django.apps import AppConfig


class SqlConfig(AppConfig):
    name = "controlplane.sql"
    label = "sql"
