"""Apache Hudi sees what we see after every commit of writers that overtake each other, but for as
many keys as the commit says.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.hudi_peer import HudiPeer
from tests.support.overtaking import (
    SCHEMA,
    commits_of_paused_writers,
    fill,
    keys_read_otherwise,
    keys_that_differ,
)
from tests.support.scenario_table import Row, ScenarioTable

pytestmark = pytest.mark.interop
SEED = int(os.environ["SLUICE_TEST_SEED"])
SAMPLED = 4
"""Commits after which Apache Hudi reads as well; hudi-rs does after each."""


@pytest.mark.parametrize("ordering", [True, False], ids=["event time", "commit time"])
def test_three_readers_see_the_same_or_the_commit_says_of_how_many_keys_not(
    location: Path, peer: HudiPeer, ordering: bool
) -> None:
    table = ScenarioTable(
        location,
        table_type="MERGE_ON_READ",
        schema=SCHEMA,
        ordering=["ts"] if ordering else [],
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    fill(table)

    chance, sampled = random.Random(SEED), set(random.Random(SEED).sample(range(10), SAMPLED))
    for number, outcome in enumerate(commits_of_paused_writers(table, chance, commits=10)):
        by_rust = keys_read_otherwise(table)
        assert outcome.divergent_keys == len(by_rust), (SEED, outcome, by_rust)
        if number in sampled:
            by_hudi = keys_that_differ(table.rows(), _seen_by_hudi(peer, table))
            assert by_hudi == by_rust, (SEED, outcome)
    table.lakehouse.compact()
    assert _seen_by_hudi(peer, table) == table.rows(), SEED


def _seen_by_hudi(peer: HudiPeer, table: ScenarioTable) -> list[Row]:
    read_rows = peer.read(table.location).to_pylist()
    rows = [{name: row[name] for name in table.schema_columns()} for row in read_rows]
    return sorted(rows, key=lambda row: row["id"])
