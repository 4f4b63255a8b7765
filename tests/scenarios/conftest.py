"""Tables for the stories told here."""

from __future__ import annotations

from tests.support.fixtures import (
    marker_server,
    pytest_runtest_makereport,
    table,
    tables,
    tables_root,
)

__all__ = ["marker_server", "pytest_runtest_makereport", "table", "tables", "tables_root"]
