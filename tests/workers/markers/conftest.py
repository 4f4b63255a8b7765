"""A table below a root, and one marker server per test module for the tests that do not kill it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.markers.harness import ServerProcess, new_table
from tests.workers.markers.troubled import TroubledStorage
from workers.storage.local import LocalStorage


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake") / "tables"
    root.mkdir()
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(root).start()
    yield running
    running.stop()


@pytest.fixture
def storage(root: Path, request: pytest.FixtureRequest) -> LocalStorage:
    """A fresh table under the module's root."""
    number = len(list(root.iterdir()))
    return new_table(root, f"table{number}")


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that the test may kill, not started yet; its root is `tmp_path / "tables"`."""
    root = tmp_path / "tables"
    root.mkdir()
    running = ServerProcess(root)
    yield running
    running.stop()


@pytest.fixture
def troubled(tmp_path: Path) -> TroubledStorage:
    return TroubledStorage(Path(new_table(tmp_path).location))
