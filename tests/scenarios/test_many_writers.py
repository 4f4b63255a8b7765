"""64 non-blocking writers in four processes: no conflict, and nothing lost. How fast, `make bench`
says.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.crowd import MANY, crowd


@pytest.mark.slow
def test_64_non_blocking_writers_meet_no_conflict_and_lose_nothing(tables_root: Path) -> None:
    """`crowd` raises for a write that failed, a commit that is gone, and rows that are not the last
    ones that each writer was told of.
    """
    measured = crowd(tables_root / "crowd", MANY, seconds=10)

    assert measured.commits >= MANY
