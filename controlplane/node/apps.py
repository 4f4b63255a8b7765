"""The app that holds the commands `up`, `down`, `status` and `doctor`."""

from __future__ import annotations

from django.apps import AppConfig


class NodeConfig(AppConfig):
    name = "controlplane.node"
    label = "node"
