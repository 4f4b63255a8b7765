"""One lake per set-up, with a real marker server behind those that want one."""

from __future__ import annotations

import pytest

from tests.behaviours.bucket_tables import location, make
from tests.behaviours.setups import SETUPS, Lake, lake_of
from tests.support.fixtures import (
    MarkerServerAddress,
    marker_server,
    pytest_runtest_makereport,
    table,
    tables,
    tables_root,
)
from tests.support.lock_providers import servers
from tests.support.scenario_table import ScenarioTables

__all__ = [
    "location",
    "make",
    "marker_server",
    "pytest_runtest_makereport",
    "servers",
    "table",
    "tables",
    "tables_root",
]


@pytest.fixture(params=SETUPS, ids=str)
def lake(
    request: pytest.FixtureRequest,
    tables: ScenarioTables,
    marker_server: MarkerServerAddress,
    monkeypatch: pytest.MonkeyPatch,
) -> Lake:
    monkeypatch.setenv("SLUICE_MARKER_SECRET", marker_server.secret)
    return lake_of(request.param, tables, marker_server)
