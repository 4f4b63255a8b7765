"""What an archiver left on the active timeline when it died: gone once it is in the history, and
before the history's declared end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scenario_table import ScenarioTable
from workers.recovery.archive_cleanup import finish_archiving
from workers.timeline import decisions, transitions
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_writer import append
from workers.timeline.instant import CompletedInstant


@pytest.fixture
def table(tmp_path: Path) -> ScenarioTable:
    return ScenarioTable(tmp_path / "table")


def committed(table: ScenarioTable, count: int) -> list[CompletedInstant]:
    for number in range(count):
        table.writer("w").upsert_and_commit({"id": 1, "city": f"city {number}"})
    return list(table.table.timeline().iterate_completed())[-count:]


def archive(table: ScenarioTable, instants: list[CompletedInstant], end: str) -> None:
    done = [
        ArchivedInstant(one, table.storage.read(table.table.layout.path(one))) for one in instants
    ]
    append(table.storage, done, lambda: None)
    decisions.raise_archived_before(table.storage, end)


def finished(table: ScenarioTable) -> list[CompletedInstant]:
    return finish_archiving(table.table, table.table.timeline())


def test_what_is_in_the_history_and_before_its_end_leaves_the_timeline(
    table: ScenarioTable,
) -> None:
    first, second, third = committed(table, 3)
    archive(table, [first, second], third.requested_at)

    assert finished(table) == [first, second]

    assert third in table.instants()
    assert not {first, second} & set(table.instants())
    assert finished(table) == []


def test_what_is_not_in_the_history_stays_whatever_its_end(table: ScenarioTable) -> None:
    first, second, third = committed(table, 3)
    archive(table, [first], third.requested_at)

    assert finished(table) == [first]

    assert {second, third} <= set(table.instants())


def test_what_is_in_the_history_but_not_before_its_end_stays(table: ScenarioTable) -> None:
    """Its archiver died before he declared it."""
    first, second = committed(table, 2)
    archive(table, [first, second], second.requested_at)

    assert finished(table) == [first]

    assert second in table.instants()


def test_savepoint_of_an_archived_commit_stays(table: ScenarioTable) -> None:
    first, second = committed(table, 2)
    end = str(int(second.requested_at) + 500)
    savepoint = transitions.put_savepoint(table.storage, first.requested_at, end, b"files")
    archive(table, [first], second.requested_at)

    assert finished(table) == [first]

    assert savepoint in table.instants()
