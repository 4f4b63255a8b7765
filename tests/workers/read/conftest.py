"""Tables for the reads told here."""

from __future__ import annotations

from tests.support.fixtures import pytest_runtest_makereport, tables, tables_root

__all__ = ["pytest_runtest_makereport", "tables", "tables_root"]
