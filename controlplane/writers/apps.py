"""Django app."""

from __future__ import annotations

from django.apps import AppConfig


class WritersConfig(AppConfig):
    name = "controlplane.writers"
    label = "writers"
