"""How long a writer's death stops the next one: real processes, killed at named points.

The bound is max(heartbeat bound, rest of the lease) + one period (the heartbeat's interval), which
has room for the half second by which a lease is given longer than it says. A writer is unblocked
when its own commit has completed and nothing of the dead one is left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.engine import JobFailed
from bench.lines import Goal, Line
from bench.support.writer_process import WriterProcess
from workers.clock import SystemClock
from workers.concurrency.outcome import Committed
from workers.lakehouse import create_table, open_table
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers

INTERVAL_MS: Final = 1_000
MISSES: Final = 2
LEASE_S: Final = 2
POINTS: Final = ("after_start", "after_data", "before_validate", "before_publish", "after_decision")
_ROUNDS = 2
_PATIENCE_S = 60
_POLL_S = 0.01
_MODE = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
    "hoodie.client.heartbeat.interval_in_ms": str(INTERVAL_MS),
    "hoodie.client.heartbeat.tolerable.misses": str(MISSES),
    "hoodie.write.lock.storage.validity.timeout.secs": str(LEASE_S),
    "hoodie.write.lock.storage.renew.interval.secs": "1",
}


def after_a_death(folder: Path) -> Iterator[Line]:
    """Raises JobFailed when a writer stays blocked."""
    bound_s = max(INTERVAL_MS * MISSES / 1000, LEASE_S) + INTERVAL_MS / 1000
    took = {point: max(_unblocked_s(folder, point) for _ in range(_ROUNDS)) for point in POINTS}
    longest_s = max(took.values())
    yield Line(
        "death of a writer to the next one unblocked",
        f"bound of {bound_s:g} s",
        longest_s,
        bound_s,
        longest_s / bound_s,
        Goal(1, "x", is_least=False),
        {"seconds_by_point": {point: round(seconds, 2) for point, seconds in took.items()}},
    )


def _unblocked_s(folder: Path, point: str) -> float:
    location = folder / "unblocked"
    shutil.rmtree(location, ignore_errors=True)
    types: dict[str, pa.DataType] = {"id": pa.int64(), "city": pa.string()}
    create_table(location, name="unblocked", schema=pa.schema(types), record_key=["id"])
    table, clock = open_table(location), SystemClock()
    killed = WriterProcess(
        location,
        "killed",
        [{"id": 1, "city": "Oslo"}],
        options=_MODE,
        stop_points=[{"point": point, "action": "kill"}],
    )
    killed.await_death()
    died_s = clock.monotonic_s()
    outcome = table.write(pa.table({"id": [1], "city": ["Voss"]}), options=_MODE)
    if not isinstance(outcome, Committed):
        raise JobFailed(f"the next writer did not commit: {outcome}")
    while any(not one.is_completed for one in table.timeline()):
        if clock.monotonic_s() - died_s > _PATIENCE_S:
            raise JobFailed(f"a writer killed at {point} is still pending")
        clock.sleep(_POLL_S)
        roll_back_dead_writers(table.table, write_options(_MODE))
    return clock.monotonic_s() - died_s
