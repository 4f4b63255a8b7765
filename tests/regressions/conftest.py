"""Tables for the bugs told here; recoveries run quietly."""

from __future__ import annotations

import pytest

from tests.support.fixtures import (
    marker_server,
    pytest_runtest_makereport,
    table,
    tables,
    tables_root,
)
from tests.support.quiet import quiet_engine

__all__ = [
    "marker_server",
    "pytest_runtest_makereport",
    "quiet_engine",
    "table",
    "tables",
    "tables_root",
]


@pytest.fixture(autouse=True)
def _quiet(quiet_engine: None) -> None:
    """For every test here."""
