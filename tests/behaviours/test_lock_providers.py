"""The whole write path under each lock provider: two writers at once, and nothing is lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.support.writer_process import WriterProcess
from tests.support.lock_providers import PROVIDERS, Servers, options_for
from tests.support.scenario_table import ScenarioTables
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, open_table
from workers.options.lock_options import URL_VARIABLE
from workers.timeline.instant import Action
from workers.timeline.metadata import LOCK_KEY, read_commit_metadata

ROUNDS = 3
WRITTEN_BY = (Action.COMMIT, Action.REPLACECOMMIT)
RETRYING = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
    "hoodie.write.num.retries.on.conflict.failures": "20",
    "hoodie.write.lock.storage.validity.timeout.secs": "30",
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_two_arrow_writers_on_one_table_lose_no_update(
    provider: str, tables: ScenarioTables, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write one bucket, so that each has to build on what the other committed."""
    options = {**options_for(provider, servers), **RETRYING}
    lake = tables(options={"hoodie.bucket.index.num.buckets": "1"})

    def write(writer: int) -> None:
        table = open_table(lake.location)
        for number in range(ROUNDS):
            rows = pa.table({"id": [writer * ROUNDS + number], "city": [f"of {writer}"]})
            outcome = table.write(rows, options={**options, "sluice.writer.name": f"w{writer}"})
            assert isinstance(outcome, Committed), outcome

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(2)))

    assert [row["id"] for row in lake.rows()] == list(range(2 * ROUNDS))
    locks_held = held_under(lake.lakehouse)
    assert {one["provider"] for one in locks_held} == {options["hoodie.write.lock.provider"]}
    epochs = [one["epoch"] for one in locks_held]
    assert len(epochs) == 2 * ROUNDS
    assert epochs == sorted(set(epochs)), "in the order of the commits"
    assert all(one["waited_ms"] >= 0 for one in locks_held)

    # Whoever comes later is told of no provider, only of the server and its password.
    monkeypatch.setenv(URL_VARIABLE, options.get("sluice.lock.url", ""))
    lake.lakehouse.cluster(["city"])
    assert held_under(lake.lakehouse)[-1]["epoch"] > epochs[-1]
    lake.lakehouse.clean()
    assert len(lake.rows()) == 2 * ROUNDS
    assert lake.leftovers() == []


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["filesystem", "postgres", "redis"])
def test_two_writer_processes_lose_no_update(
    provider: str, tables: ScenarioTables, servers: Servers
) -> None:
    options = {**options_for(provider, servers), **RETRYING}
    lake = tables(options={"hoodie.bucket.index.num.buckets": "1"})

    writing = [
        WriterProcess(
            Path(lake.location), f"w{one}", [{"id": one, "city": f"of {one}"}], options=options
        )
        for one in range(2)
    ]
    outcomes = [process.outcome()["outcome"] for process in writing]

    assert outcomes == ["Committed"] * 2
    assert [row["id"] for row in lake.rows()] == [0, 1]


def held_under(table: LakehouseTable) -> list[dict[str, Any]]:
    """What each write says of the lock that it was decided under, in order of completion."""
    done = sorted(
        (one for one in table.table.timeline().iterate_completed() if one.action in WRITTEN_BY),
        key=lambda instant: instant.completed_at or "",
    )
    texts = [
        read_commit_metadata(table.table.storage.read(table.table.layout.path(one))).extra_metadata
        for one in done
    ]
    return [json.loads(text[LOCK_KEY]) for text in texts if LOCK_KEY in text]
