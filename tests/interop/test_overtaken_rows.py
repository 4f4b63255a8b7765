"""Apache Hudi sees what we see after every commit of writers that overtake each other."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tests.support.hudi_peer import HudiPeer
from tests.support.overtaking import SCHEMA, commits_of_paused_writers, fill
from tests.support.scenario_table import Row, ScenarioTable

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("ordering", [True, False], ids=["event time", "commit time"])
def test_three_readers_see_the_same_after_every_commit(
    location: Path, peer: HudiPeer, ordering: bool
) -> None:
    seed = int(os.environ.get("SLUICE_READERS_SEED", "0")) or random.SystemRandom().getrandbits(32)
    sys.stdout.write(f"SLUICE_READERS_SEED={seed}\n")
    table = ScenarioTable(
        location,
        table_type="MERGE_ON_READ",
        schema=SCHEMA,
        ordering=["ts"] if ordering else [],
    )
    fill(table)

    for writer in commits_of_paused_writers(table, random.Random(seed), commits=8):
        table.assert_referee_agrees()
        assert _seen_by_hudi(peer, location) == table.rows(*SCHEMA.names), writer


def _seen_by_hudi(peer: HudiPeer, location: Path) -> list[Row]:
    found = peer.read(location).to_pylist()
    rows = [{name: row[name] for name in SCHEMA.names} for row in found]
    return sorted(rows, key=lambda row: row["id"])
