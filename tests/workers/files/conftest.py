"""A table directory of one's own, and the tables that Apache Hudi itself wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.support.golden import ARCHIVES, MISSING, golden_archive, unpacked
from workers.storage.local import LocalStorage

OpenGolden = Callable[[str], LocalStorage]


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


@pytest.fixture
def golden(tmp_path: Path) -> OpenGolden:
    """Opens a table by the middle of its archive's name, such as `mor-avro-v9_txns_simple_meta`."""
    if not ARCHIVES:
        pytest.skip(MISSING)
    return lambda name: LocalStorage(unpacked(golden_archive(name), tmp_path))
