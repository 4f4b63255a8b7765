"""Fixtures for every test that has a table; a `conftest.py` imports those that it needs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.support.marker_server import start_marker_server
from tests.support.memory_room import MEMORY, has_room
from tests.support.scenario_table import ScenarioTable, ScenarioTables

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


@pytest.fixture(scope="session")
def tables_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in memory if there is room: a commit waits for the disk a dozen times.

    SLUICE_TEST_TABLES names a directory to use, and to keep, instead.
    """
    if kept := os.environ.get("SLUICE_TEST_TABLES"):
        yield Path(tempfile.mkdtemp(dir=kept))
    elif has_room(MEMORY):
        root = Path(tempfile.mkdtemp(prefix="sluice-tests-", dir=MEMORY))
        yield root
        shutil.rmtree(root, ignore_errors=True)
    else:
        yield tmp_path_factory.mktemp("tables")


@pytest.fixture
def tables(tables_root: Path, request: pytest.FixtureRequest) -> Iterator[ScenarioTables]:
    """Makes tables; what a passing test leaves of them is judged when it ends."""
    made = ScenarioTables(Path(tempfile.mkdtemp(dir=tables_root)))
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
def marker_server(
    tables_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MarkerServerAddress]:
    """One real server process for all tables of the session."""
    log = tmp_path_factory.mktemp("markers") / "server.log"
    server = start_marker_server(roots=[tables_root], secret=_SECRET, log=log)
    yield MarkerServerAddress(server.url, _SECRET)
    server.stop()
