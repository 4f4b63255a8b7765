"""The states that the harness takes for what deaths leave are what a process leaves that dies."""

from __future__ import annotations

from itertools import count

import pytest

from tests.crash.digests import digest
from tests.crash.harness import COW, MOR, Kind, State, died_everywhere, made
from tests.crash.operations import OPERATIONS, Operation
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MOMENTS, Crash, FaultyStorage, Moment
from workers.lakehouse import open_table

TRIED = {"upsert": COW, "compact": MOR, "archive": MOR, "rollback": MOR}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "operation"),
    [(TRIED[one.name], one) for one in OPERATIONS if one.name in TRIED],
    ids=lambda value: value.name,
)
def test_recorded_states_are_those_that_dying_leaves(kind: Kind, operation: Operation) -> None:
    start = made(kind, operation.needs)

    recorded = died_everywhere(start, lambda table: operation.run(table, kind.options))

    died = {left for moment in MOMENTS for left in _left(start, kind, operation, moment)}
    assert len(died) > 10
    assert {digest(state.files) for state in recorded} == died


def _left(start: State, kind: Kind, operation: Operation, moment: Moment) -> list[str]:
    """What is left by a process that dies at its first call, by one that dies at its second…"""
    digests = []
    for die_at in count(1):
        clock = StillClock(start.now_ms)
        storage = FaultyStorage(clock, start.files, die_at=die_at, moment=moment)
        ports = still_ports(clock, prefix=f"x{start.now_ms}")
        try:
            operation.run(open_table(storage.location, ports=ports, storage=storage), kind.options)
        except Crash:
            digests.append(digest(storage.files))
        else:
            break
    return digests
