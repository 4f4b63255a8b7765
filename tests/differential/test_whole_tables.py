"""Whole tables are what a plain dictionary says, after every step and in every read.

The gate runs the same 20 tables each time, `make explore` 200 others at a time, and `make soak`
10,000.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.differential.story import Story
from tests.support.sampling import EXPLORE, WHOLE, story_seed

PARTS = 10
TABLES = 1000 if WHOLE in os.environ else 20 if EXPLORE in os.environ else 2


@pytest.mark.sampled(every=1)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.usefixtures("quiet_engine")
def test_tables_are_what_the_model_says(tmp_path: Path, part: int) -> None:
    first = story_seed(part) * 1000
    for number in range(first, first + TABLES):
        Story(number, tmp_path).check()
