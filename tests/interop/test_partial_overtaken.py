"""Apache Hudi folds partial rows of writers that overtake each other as hudi-rs does, and shows
what we show but for as many keys as the commit says.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.hudi_peer import HudiPeer
from tests.support.overtaking import keys_read_otherwise, keys_that_differ
from tests.support.partial_writers import commits_of_partial_writers, partial_table
from tests.support.scenario_table import Row, ScenarioTable

pytestmark = pytest.mark.interop
SEED = int(os.environ["SLUICE_TEST_SEED"])
READ_AFTER = (3, 6, 9)
"""Commits; hudi-rs reads after each."""


@pytest.mark.parametrize("is_ordered", [True, False], ids=["event time", "commit time"])
def test_three_readers_see_the_same_or_the_commit_says_of_how_many_keys_not(
    location: Path, peer: HudiPeer, is_ordered: bool
) -> None:
    table = partial_table(location, is_ordered=is_ordered)

    commits = commits_of_partial_writers(table, random.Random(SEED), commits=10)
    for number, outcome in enumerate(commits):
        by_rust = keys_read_otherwise(table)
        assert outcome.divergent_keys == len(by_rust), (SEED, outcome, by_rust)
        if number in READ_AFTER:
            by_hudi = keys_that_differ(table.rows(), _seen_by_hudi(peer, table))
            assert by_hudi == by_rust, (SEED, outcome)
    table.lakehouse.compact()
    assert _seen_by_hudi(peer, table) == table.rows(), SEED


def _seen_by_hudi(peer: HudiPeer, table: ScenarioTable) -> list[Row]:
    rows = peer.read(table.location).to_pylist()
    columns = table.schema_columns()
    return sorted(
        ({name: row[name] for name in columns} for row in rows), key=lambda row: row["id"]
    )
