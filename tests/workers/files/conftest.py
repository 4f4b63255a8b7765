"""A table directory of one's own, and the tables that Apache Hudi itself wrote."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.storage.local import LocalStorage

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden"

OpenGolden = Callable[[str], LocalStorage]


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


@pytest.fixture
def golden(tmp_path: Path) -> OpenGolden:
    """Opens a table by the middle of its archive's name, such as `mor-avro-v9_txns_simple_meta`."""

    def unpacked(name: str) -> LocalStorage:
        archives = sorted(GOLDEN.glob(f"*{name}*.zip"))
        if not archives:
            pytest.skip("tables written by Apache Hudi are not beside this checkout")
        with zipfile.ZipFile(archives[0]) as archive:
            names = [n for n in archive.namelist() if "__MACOSX" not in n and ".crc" not in n]
            archive.extractall(tmp_path, names)
        return LocalStorage(tmp_path / names[0].split("/")[0])

    return unpacked
