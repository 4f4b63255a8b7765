"""Tables for the stories told here."""

from __future__ import annotations

from tests.support.fixtures import marker_server, table, tables

__all__ = ["marker_server", "table", "tables"]
