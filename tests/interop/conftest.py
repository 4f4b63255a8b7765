"""One Apache Hudi process for all tests here, and a fresh place for each table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hudi_peer import HudiPeer, require_hudi


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiPeer]:
    environment = require_hudi()
    process = HudiPeer(environment.python, environment.jar, tmp_path_factory.mktemp("hudi"))
    yield process
    process.close()


@pytest.fixture
def location(tmp_path: Path) -> Path:
    return tmp_path / "table"
