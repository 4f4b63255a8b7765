"""Django app."""

from __future__ import annotations

from django.apps import AppConfig


class MirrorConfig(AppConfig):
    name = "controlplane.mirror"
    label = "mirror"
