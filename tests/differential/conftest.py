"""Stories run quietly."""

from __future__ import annotations

from tests.support.quiet import quiet_engine

__all__ = ["quiet_engine"]
