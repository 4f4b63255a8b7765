"""An append-only table of a sink, and what the broker says of its topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.referee import assert_referee_agrees
from tests.workers.sink.sinks import Facts, append_table
from workers.table.table import Table


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    made = append_table(tmp_path / "t")
    yield made
    assert_referee_agrees(tmp_path / "t")


@pytest.fixture
def facts() -> Facts:
    return Facts({0: (0, 5), 1: (0, 3)})
