"""The crash tests run quietly."""

from __future__ import annotations

import pytest

from tests.support.quiet import quiet_engine

__all__ = ["quiet_engine"]


@pytest.fixture(autouse=True)
def _quiet(quiet_engine: None) -> None:
    """For every test here."""
