"""Rollback by markers and by listing: the same files in every state that a crash leaves (RB4, bugs
B4, B7), and the same table afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    rows_of,
)
from tests.crash.operations import UPSERT
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MemoryStorage
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.plan import find_files
from workers.table.table import Table


@pytest.mark.parametrize("kind", [COW, MOR, NBCC], ids=lambda kind: kind.name)
def test_both_strategies_name_the_same_files_and_end_in_the_same_table(kind: Kind) -> None:
    cases = 0
    for crashed in _crashes_of_an_upsert(kind):
        table = _opened(crashed)
        for instant in table.timeline().pending():
            by_markers = find_files(table, instant.requested_at, by_markers=True)
            by_listing = find_files(table, instant.requested_at, by_markers=False)
            assert by_markers == by_listing
            cases += bool(by_listing)

        ends = [_rolled_back(kind, crashed, strategy) for strategy in ("true", "false")]

        assert ends[0] == ends[1]
    assert cases > 5


def _crashes_of_an_upsert(kind: Kind) -> Iterator[State]:
    for state in died_everywhere(made(kind, []), lambda table: UPSERT.run(table, kind.options)):
        yield State(state.files, state.now_ms + DEAD_AFTER_MS)


def _opened(state: State) -> Table:
    clock = StillClock(state.now_ms)
    storage = MemoryStorage(clock, state.files)
    ports = still_ports(clock, prefix="r")
    return open_table(storage.location, ports=ports, storage=storage).table


def _rolled_back(kind: Kind, crashed: State, strategy: str) -> tuple[object, list[str]]:
    table = _opened(crashed)
    options = {**kind.options, "hoodie.rollback.using.markers": strategy}
    roll_back_dead_writers(table, write_options(options))
    files = {file.path: (table.storage.read(file.path), 0) for file in table.storage.list_tree("")}
    return rows_of(State(files, crashed.now_ms)), sorted(files)
