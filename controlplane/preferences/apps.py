"""Django app."""

from __future__ import annotations

from django.apps import AppConfig


class PreferencesConfig(AppConfig):
    name = "controlplane.preferences"
    label = "preferences"
