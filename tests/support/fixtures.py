"""Fixtures for every test that has a table; a `conftest.py` imports those that it needs."""

from __future__ import annotations

import socket
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables
from workers.markers.process import await_health, server_url, start_server, stop

_SECRET = "a-secret-for-scenarios"
_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture
def tables(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ScenarioTables]:
    """Makes tables; what a passing test leaves of them is judged when it ends."""
    made = ScenarioTables(tmp_path)
    yield made
    if request.node.stash.get(_PASSED, False):
        made.judge_all()


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    """Copy-on-write, key `id`, no partitions, the last commit wins."""
    return tables()


@dataclass(frozen=True, slots=True)
class MarkerServerAddress:
    url: str
    secret: str


@pytest.fixture(scope="session")
def marker_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MarkerServerAddress]:
    """One real server process; every temporary directory of the session is below its root."""
    root = tmp_path_factory.getbasetemp()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    log = root / "marker-server.log"
    pid = start_server(port=port, roots=[root], secret=_SECRET, log_path=log)
    assert await_health(server_url(port), 20.0) is not None, log.read_text()
    yield MarkerServerAddress(server_url(port), _SECRET)
    stop(pid, port=port)
