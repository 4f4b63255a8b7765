"""A fixture for tests that make thousands of recoveries, each of which says what it rolled back."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet_engine() -> Iterator[None]:
    """Only errors of the engine are logged; tests after it see everything again."""
    engine = logging.getLogger("workers")
    before = engine.level
    engine.setLevel(logging.ERROR)
    yield
    engine.setLevel(before)
