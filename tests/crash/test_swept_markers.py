"""Who sweeps up behind the dead leaves the markers of every instant that is still pending: a plan
outlives its executor, and who takes it up finds by them what files the dead one left.
"""

from __future__ import annotations

import pytest

from tests.crash.harness import (
    COW,
    DEAD_AFTER_MS,
    MOR,
    NBCC,
    Kind,
    State,
    died_everywhere,
    made,
)
from tests.crash.operations import CLUSTER, COMPACT, Operation
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MemoryStorage
from workers.lakehouse import LakehouseTable, open_table
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers

REWRITES = [(MOR, COMPACT), (NBCC, COMPACT), (COW, CLUSTER), (MOR, CLUSTER)]


@pytest.mark.parametrize(
    ("kind", "rewrite"), REWRITES, ids=[f"{drawn.name}-{kind.name}" for kind, drawn in REWRITES]
)
def test_markers_of_a_pending_plan_outlive_the_sweep_wherever_its_executor_died(
    kind: Kind, rewrite: Operation
) -> None:
    start = made(kind, rewrite.needs)
    markers_kept = 0

    for crashed in died_everywhere(start, lambda table: rewrite.run(table, kind.options)):
        later = State(crashed.files, crashed.now_ms + DEAD_AFTER_MS)
        swept = died_everywhere(later, lambda table: _sweep(table, kind))[-1]
        for instant in _pending(swept):
            markers = {
                path for path in crashed.files if path.startswith(f".hoodie/.temp/{instant}/")
            }
            assert markers <= swept.files.keys()
            markers_kept += len(markers)

    assert markers_kept > 0


def _sweep(table: LakehouseTable, kind: Kind) -> None:
    roll_back_dead_writers(table.table, write_options(kind.options))


def _pending(state: State) -> list[str]:
    clock = StillClock(state.now_ms)
    storage = MemoryStorage(clock, state.files)
    ports = still_ports(clock, prefix="look")
    table = open_table(storage.location, ports=ports, storage=storage).table
    return [instant.requested_at for instant in table.timeline().pending()]
