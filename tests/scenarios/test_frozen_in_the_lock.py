"""A writer that is stopped (SIGSTOP) at some call on the files of the table's lock: others are kept
waiting for no longer than its lease, and when it wakes it hears an outcome.
"""

from __future__ import annotations

import json
import os
import random

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTables
from tests.support.stopped_calls import StoppedProcess
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, open_table

SCHEMA = pa.schema({"id": pa.int64(), "value": pa.int64()})
LEASE_S = 10
OPTIONS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
    "hoodie.write.lock.storage.validity.timeout.secs": str(LEASE_S),
    "hoodie.write.lock.storage.renew.interval.secs": "1",
    "hoodie.write.lock.wait_time_ms": "120000",
}
CALLS_MAX = 200
SAMPLE = 5
SEED = int(os.environ["SLUICE_TEST_SEED"])


@pytest.mark.process
@pytest.mark.parametrize(
    "every",
    [
        pytest.param(False, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
        pytest.param(True, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_writer_stopped_anywhere_in_the_lock_delays_others_by_its_lease_and_hears_an_outcome(
    tables: ScenarioTables, every: bool
) -> None:
    table = tables(schema=SCHEMA, write_options=OPTIONS)
    rival = open_table(table.location)
    sleeper = StoppedProcess(
        "tests.support.stopped_writer", str(table.location), json.dumps(OPTIONS)
    )
    try:
        calls = list(range(1, _calls_of_one_write(sleeper) + 1))
        chosen = calls if every else sorted(random.Random(SEED).sample(calls, SAMPLE))
        values = {1: _value(rival, 1)}
        for call in chosen:
            at = f"SLUICE_TEST_SEED={SEED}, stopped before call {call}"
            sleeper.begin(stopped_before=call)
            assert sleeper.await_stopped(), at
            outcome = rival.write(pa.table({"id": [2], "value": [call]}), options=OPTIONS)
            sleeper.thaw()
            answer = sleeper.answer()

            assert isinstance(outcome, Committed), outcome
            assert answer.get("outcome") in ("Committed", "RolledBack", "Conflicted"), (at, answer)
            if answer["outcome"] == "Committed":
                values[1] = answer["value"]
            assert (_value(rival, 1), _value(rival, 2)) == (values[1], call), (at, answer)
    finally:
        sleeper.end()


def _calls_of_one_write(sleeper: StoppedProcess) -> int:
    """When others do not disturb it. The first one also makes what later ones find."""
    for _ in range(2):
        sleeper.begin()
        assert sleeper.answer()["outcome"] == "Committed"
    low, high = 1, CALLS_MAX
    while low < high:
        middle = (low + high + 1) // 2
        sleeper.begin(stopped_before=middle)
        low, high = (middle, high) if sleeper.await_stopped() else (low, middle - 1)
        sleeper.thaw()
        assert sleeper.answer()["outcome"] == "Committed"
    return low


def _value(table: LakehouseTable, key: int) -> object:
    rows = table.read().to_pylist()
    return next((row["value"] for row in rows if row["id"] == key), None)
