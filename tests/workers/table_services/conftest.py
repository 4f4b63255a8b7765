"""Services run on real tables in directories."""

from __future__ import annotations

from tests.support.fixtures import pytest_runtest_makereport, table, tables, tables_root

__all__ = ["pytest_runtest_makereport", "table", "tables", "tables_root"]
