"""Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ConnectionsConfig(AppConfig):
    name = "controlplane.connections"
    label = "connections"
