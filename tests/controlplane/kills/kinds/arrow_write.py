"""Laid beside the product's kinds by `tests.controlplane.kills.settings`."""

from __future__ import annotations

from tests.controlplane.kills.arrow_kind import KIND

__all__ = ["KIND"]
