"""Instants that leave the timeline while a process reads what it listed: they are archived, or a
commit is rolled back.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.scenario_table import ScenarioTable
from tests.support.table_services import plan, run
from tests.support.watched_storage import At, WatchedStorage
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.sink.dead_letters import list_dead_letter_files
from workers.table.cleaned_files import find_cleaned_files

SHORT = {"min_commits": "1", "max_commits": "2"}


def write(table: ScenarioTable, count: int) -> None:
    for number in range(count):
        table.writer("w").upsert_and_commit({"id": 1, "city": f"city {number}"})


def archive_a_clean(table: ScenarioTable) -> None:
    write(table, 4)
    run(table.table, "clean", commits="1")
    run(table.table, "archive", **SHORT)


def test_clean_that_is_archived_meanwhile_still_names_the_files_it_deleted(tmp_path: Path) -> None:
    table = ScenarioTable(tmp_path / "table")
    write(table, 4)
    first = table.table.timeline().list_completed_writes()[1].completed_at
    run(table.table, "clean", commits="1")
    listed = table.table.timeline()
    lost = find_cleaned_files(table.table, listed, first)
    assert lost

    archive_a_clean(table)

    assert find_cleaned_files(table.table, listed, first) == lost


def test_plan_of_an_archive_passes_over_a_clean_that_is_archived_meanwhile(tmp_path: Path) -> None:
    table = ScenarioTable(tmp_path / "table")
    write(table, 4)
    run(table.table, "clean", commits="1")
    [clean] = [one for one in table.table.timeline().iterate_completed() if one.action == "clean"]
    overtaken = At("read", table.table.layout.path(clean), lambda: archive_a_clean(table))
    storage = WatchedStorage(tmp_path / "table", before=overtaken)

    plan(open_table(storage.location, storage=storage).table, "archive", **SHORT)

    assert overtaken.hits == 1


def test_letters_of_a_commit_that_is_rolled_back_meanwhile_are_left_out(tmp_path: Path) -> None:
    table = ScenarioTable(tmp_path / "table")
    write(table, 2)
    newest = table.table.timeline().list_completed_writes()[-1].requested_at
    request = RollbackRequest(newest, by="test", reason="test")

    def roll_back() -> None:
        rollback(table.table, request, write_options({}))

    at_history = At("list_files", "timeline/history", roll_back)
    storage = WatchedStorage(tmp_path / "table", before=at_history)
    reader = open_table(storage.location, storage=storage).table

    assert list_dead_letter_files(reader, sink_key="sluice.sink.id", sink_id="s") == []
    assert at_history.hits == 1
