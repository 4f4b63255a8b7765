"""Orphaned markers are shown and deleted; those of a pending instant and of a live writer stay."""

from __future__ import annotations

import pytest

from tests.support.scenario_table import ScenarioTable
from tests.support.table_services import plan, run
from tests.support.watched_storage import At, Died, WatchedStorage, fails
from workers.clock import InstantTime
from workers.errors import InvalidInput, PlanChanged
from workers.lakehouse import open_table
from workers.markers.marker import markers_directory
from workers.markers.store import pending_marker_instants

SERVICE = "delete_markers"


def leave_markers(table: ScenarioTable, instant: InstantTime, *names: str) -> None:
    directory = markers_directory(instant)
    table.storage.put(f"{directory}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    lines = "".join(f"{name}.parquet.marker.CREATE\n" for name in names)
    table.storage.put(f"{directory}/MARKERS0", lines.encode())


@pytest.fixture
def lake(table: ScenarioTable) -> ScenarioTable:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    return table


def test_markers_of_a_completed_instant_go_and_of_a_pending_one_stay(lake: ScenarioTable) -> None:
    instant = next(row.requested_at for row in lake.instants() if row.is_completed)
    at_work = lake.writer("at-work").upsert({"id": 2, "city": "Rome"})
    leave_markers(lake, instant, "a", "b")

    first_plan = plan(lake.table, SERVICE)
    outcome = run(lake.table, SERVICE, expected_plan_hash=first_plan.plan_hash)

    assert [(item.what, item.effect) for item in first_plan.items] == [
        (markers_directory(instant), "delete")
    ]
    assert first_plan.items[0].detail.startswith("2 markers of an instant that is not pending")
    assert outcome.figures["instants"] == 1
    assert pending_marker_instants(lake.storage) == (at_work.last_instant,)
    at_work.wins()
    assert plan(lake.table, SERVICE).is_empty


def test_markers_stay_while_the_heartbeat_of_their_instant_lives(lake: ScenarioTable) -> None:
    writer = lake.writer("slow").upsert({"id": 2, "city": "Rome"})
    for file in (lake.location / ".hoodie/timeline").glob(f"{writer.last_instant}*"):
        file.unlink()

    assert plan(lake.table, SERVICE).is_empty

    writer.dies()
    assert len(plan(lake.table, SERVICE).items) == 1
    lake.excuse_referee("a pending instant was removed by hand")


def test_more_orphans_than_were_confirmed_are_refused(lake: ScenarioTable) -> None:
    leave_markers(lake, "20200101000000000", "a")
    first_plan = plan(lake.table, SERVICE)
    leave_markers(lake, "20200101000000001", "b")

    with pytest.raises(PlanChanged):
        run(lake.table, SERVICE, expected_plan_hash=first_plan.plan_hash)

    assert len(pending_marker_instants(lake.storage)) == 2


def test_run_that_died_midway_continues_with_the_rest(lake: ScenarioTable) -> None:
    for number in range(3):
        leave_markers(lake, f"2020010100000000{number}", "a")
    first_plan = plan(lake.table, SERVICE)
    storage = WatchedStorage(lake.location, before=At("delete_tree", "0001", fails(Died())))
    with pytest.raises(Died):
        run(
            open_table(lake.location, storage=storage).table,
            SERVICE,
            expected_plan_hash=first_plan.plan_hash,
        )
    assert len(pending_marker_instants(lake.storage)) == 2

    run(lake.table, SERVICE, expected_plan_hash=first_plan.plan_hash)

    assert pending_marker_instants(lake.storage) == ()


def test_parameters_are_refused(lake: ScenarioTable) -> None:
    with pytest.raises(InvalidInput, match="takes no parameters"):
        plan(lake.table, SERVICE, instant="20200101000000000")
