"""The demo's writers that meet on purpose lose by what they show, and by nothing else."""

from __future__ import annotations

from itertools import combinations

from workers.demo.ad_requests import KEY, PARTITION
from workers.demo.rivals import backfill_rows, evolve_rows


def test_no_two_regions_of_the_demo_share_a_key() -> None:
    """Whoever brought the second would be refused, whatever its step is about to show."""
    batches = [backfill_rows(1), evolve_rows("a", 1), evolve_rows("b", 1)]

    for first, second in combinations(batches, 2):
        for column in (PARTITION, KEY):
            assert not set(first[column].to_pylist()) & set(second[column].to_pylist())


def test_both_backfills_bring_the_same_keys_with_other_prices() -> None:
    first, second = backfill_rows(1), backfill_rows(2)

    assert first[KEY] == second[KEY]
    assert first != second
