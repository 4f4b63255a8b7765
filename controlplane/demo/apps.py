"""The demo's app. What it adds to a node, it adds here; Celery finds its task in `tasks.py`, and
Django its command.
"""

from __future__ import annotations

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "controlplane.demo"
    label = "demo"

    def ready(self) -> None:
        from controlplane.demo.source_kinds import SOURCE_KINDS
        from controlplane.node.additions import add_to_node
        from controlplane.operations.source_kinds import add_source_kind
        from workers.spark.input_modules import add_input_module

        for kind in SOURCE_KINDS:
            add_source_kind(kind)
        add_input_module("workers.demo.inputs")
        add_to_node("controlplane.demo.addition")
