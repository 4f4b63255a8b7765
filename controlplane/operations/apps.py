"""Django app."""

from __future__ import annotations

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "controlplane.operations"
    label = "operations"

    def ready(self) -> None:
        from controlplane.connections.queries import add_finder
        from controlplane.operations.named_connections import find_uses

        add_finder(find_uses)
