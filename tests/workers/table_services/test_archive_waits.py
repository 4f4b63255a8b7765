"""Archiving waits for whoever was rolled back and may still write a file: other readers would count
it behind the active start.
"""

from __future__ import annotations

import pytest

from tests.support.clocks import ManualClock, MortalProcess
from tests.support.scenario_table import ScenarioTable, ScenarioTables, ScenarioWriter
from tests.support.table_services import plan, run
from workers.clock import InstantTime
from workers.concurrency import late_writers
from workers.concurrency.heartbeat import heartbeat_path
from workers.options.service_keys import LATE_WRITER_KEY
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table_services.archive_policy import find_late_writer

HOUR_MS = 3_600_000
OPTIONS = write_options({})
LIMITS = {"min_commits": "2", "max_commits": "3"}


def roll_back(table: ScenarioTable, instant: InstantTime) -> None:
    request = RollbackRequest(instant, by="admin", reason="test", is_forced=True)
    rollback(table.table, request, OPTIONS)


def aborted_and_passed(table: ScenarioTable) -> ScenarioWriter:
    """A writer that others rolled back while it lived, and what has been committed since."""
    table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})
    sleeper = table.writer("sleeper").upsert({"id": 2, "city": "Rome"})
    roll_back(table, sleeper.last_instant)
    for number in range(5):
        table.writer("w").upsert_and_commit({"id": 3, "city": f"city {number}"})
    return sleeper


def archived_past(table: ScenarioTable, instant: InstantTime) -> bool:
    return (table.table.timeline().first_time or "") > instant


def test_archiving_does_not_pass_an_instant_whose_writer_may_live(table: ScenarioTable) -> None:
    sleeper = aborted_and_passed(table)

    outcome = run(table.table, "archive", **LIMITS)
    shown = plan(table.table, "archive", **LIMITS)

    assert outcome.figures["instants"] == 1
    assert not archived_past(table, sleeper.last_instant)
    [warning] = shown.warnings
    assert sleeper.last_instant in warning
    assert "may still live (process " in warning


def test_archiving_goes_on_once_the_writer_has_ended(table: ScenarioTable) -> None:
    sleeper = aborted_and_passed(table)
    process = sleeper.table.ports.processes
    assert isinstance(process, MortalProcess)

    process.ends()
    run(table.table, "archive", **LIMITS)

    assert archived_past(table, sleeper.last_instant)
    assert late_writers.list_late_writers(table.storage) == []


def test_archiving_goes_on_once_the_writer_says_that_it_is_over(table: ScenarioTable) -> None:
    sleeper = aborted_and_passed(table)

    sleeper.is_told_rolled_back()
    run(table.table, "archive", **LIMITS)

    assert archived_past(table, sleeper.last_instant)


def test_writer_that_rolls_itself_back_is_never_waited_for(table: ScenarioTable) -> None:
    table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})
    loser = table.writer("loser").upsert({"id": 1, "city": "Rome"})
    for number in range(5):
        table.writer("w").upsert_and_commit({"id": 1, "city": f"city {number}"})
    loser.loses()

    run(table.table, "archive", **LIMITS)

    assert archived_past(table, loser.last_instant)


def test_person_may_decide_that_the_writer_is_dead(table: ScenarioTable) -> None:
    sleeper = aborted_and_passed(table)

    run(table.table, "archive", **LIMITS, **{LATE_WRITER_KEY: "0"})

    assert archived_past(table, sleeper.last_instant)


def test_nobody_is_waited_for_longer_than_the_option_says(tables: ScenarioTables) -> None:
    """By the clock that is handed in: notes carry the time of the file system."""
    table = tables()
    sleeper = aborted_and_passed(table)
    late = table.writer("late", clock=ManualClock(table.clock.now_ms() + 167 * HOUR_MS)).table
    later = table.writer("later", clock=ManualClock(table.clock.now_ms() + 169 * HOUR_MS)).table

    held = find_late_writer(late, late.timeline())
    assert held is not None
    assert held.instant == sleeper.last_instant
    assert find_late_writer(later, later.timeline()) is None


def test_writer_of_whom_nothing_is_known_is_waited_for(table: ScenarioTable) -> None:
    """Another engine's: its heartbeat is an empty file."""
    stranger = table.writer("stranger").upsert({"id": 2, "city": "Rome"})
    stranger.dies()
    table.storage.put(heartbeat_path(stranger.last_instant), b"")

    roll_back(table, stranger.last_instant)

    held = find_late_writer(table.table, table.table.timeline())
    assert held is not None
    assert str(held) == "of an unknown process"


def test_process_that_writes_for_another_is_noted_while_it_does(table: ScenarioTable) -> None:
    """As a task of Spark does, or a participant of a sink."""
    instant = table.instants()[0].requested_at
    process = MortalProcess()

    with late_writers.record_writer(table.storage, instant, process, "task"):
        [noted] = late_writers.list_late_writers(table.storage)

    assert (noted.process, noted.is_beginner) == (process.here(), False)
    assert late_writers.list_late_writers(table.storage) == []


def test_dead_writers_block_nothing(table: ScenarioTable) -> None:
    table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})
    dead = table.writer("dead").upsert({"id": 2, "city": "Rome"})
    dead.dies()
    roll_back_dead_writers(table.table, OPTIONS)
    for number in range(5):
        table.writer("w").upsert_and_commit({"id": 3, "city": f"city {number}"})

    run(table.table, "archive", **LIMITS)

    assert archived_past(table, dead.last_instant)


@pytest.mark.parametrize("given", ["-1", "soon"])
def test_wrong_wait_is_refused(table: ScenarioTable, given: str) -> None:
    from workers.errors import InvalidInput

    with pytest.raises(InvalidInput):
        plan(table.table, "archive", **{LATE_WRITER_KEY: given})
