"""Real processes killed in the middle of a compaction or a clustering, and the run that follows.

tests/crash/test_crash_executors.py tests the same in a simulation, at every call of the storage.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.errors import LockTimeout, ServiceBusy
from workers.lakehouse import open_table

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(900)]

_ROOT = Path(__file__).resolve().parents[2]
_WAIT_MAX_S = 180.0
_OPTIONS = {
    "sluice.writer.name": "service",
    "hoodie.write.markers.type": "direct",
    "hoodie.client.heartbeat.interval_in_ms": "5000",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
}
_RUN = {"compaction": "compact(options=o)", "clustering": "cluster(['value'], options=o)"}


@pytest.fixture
def merged(tables: ScenarioTables) -> ScenarioTable:
    table = tables(
        schema=READINGS,
        table_type="MERGE_ON_READ",
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    for ts in range(2):
        table.writer("ingest").upsert_and_commit(
            *(
                {"id": str(key), "place": "p", "ts": ts, "value": -key, "note": None}
                for key in range(9)
            )
        )
    return table


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    "point", ["after_start", "before_validate", "before_publish", "after_decision", "after_publish"]
)
@pytest.mark.parametrize("service", sorted(_RUN))
def test_next_run_ends_what_a_killed_process_began(
    merged: ScenarioTable, service: str, point: str
) -> None:
    before = merged.rows()

    _killed(merged, service, point)
    assert merged.rows() == before
    _again_until_it_runs(merged, service)

    assert merged.rows() == before
    assert all(not one.log_files for one in merged.lakehouse.file_groups())
    assert list(merged.table.timeline().pending()) == []
    merged.writer("passer-by").upsert_and_commit({"id": "new", "place": "p", "ts": 1, "value": 1})
    assert merged.orphan_files() == []
    assert merged.leftovers() == []


def _killed(table: ScenarioTable, service: str, point: str) -> None:
    code = "import json, sys; from workers import open_table; o = json.loads(sys.argv[2]); "
    code += f"open_table(sys.argv[1]).{_RUN[service]}"
    order = [{"point": point, "writer": "service", "action": "kill"}]
    done = subprocess.run(
        [sys.executable, "-c", code, str(table.location), json.dumps(_OPTIONS)],
        cwd=_ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            "SLUICE_ALLOW_STOP_POINTS": "1",
            "SLUICE_STOP_POINTS": json.dumps(order),
        },
        capture_output=True,
        timeout=_WAIT_MAX_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def _again_until_it_runs(table: ScenarioTable, service: str) -> None:
    """As a scheduler does: the dead one's heartbeat and lease run out first."""
    handle = open_table(table.location)
    deadline = time.monotonic() + _WAIT_MAX_S
    while True:
        try:
            if service == "compaction":
                handle.compact(options=_OPTIONS)
            else:
                handle.cluster(["value"], options=_OPTIONS)
            return
        except (ServiceBusy, LockTimeout):
            assert time.monotonic() < deadline, "nobody could go on"
            time.sleep(0.1)
