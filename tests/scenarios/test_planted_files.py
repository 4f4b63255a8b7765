"""Files that nobody of ours wrote in that way: foreign, damaged, empty, or planted by an attacker
who may write into the table but not beside it (threat T3).

Nothing outside the table is touched, nothing committed goes, and writers go on working.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables, ScenarioWriter
from tests.support.watched_storage import At, Died, WatchedStorage, fails
from workers.lakehouse import open_table
from workers.markers.marker import markers_directory
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.timeline.metadata import RollbackPlanFile

OPTIONS = write_options({})
TIMELINE = ".hoodie/timeline"
LONG_AGO = "20200101000000000"


@pytest.fixture
def victim(table: ScenarioTable) -> Path:
    """A file beside the table whose name carries whatever instant a planted plan is about."""
    return table.location.parent / "victim"


def rollback_that_died_after_its_decision(table: ScenarioTable) -> tuple[str, str]:
    """(target, rollback instant) of a dead writer whose rollback did not delete anything yet."""
    dead = table.writer("dead").upsert({"id": 7, "city": "Rome"})
    dead.dies()
    dying = WatchedStorage(
        table.location, before=At("put_if_absent", ".rollback.inflight", fails(Died()))
    )
    with pytest.raises(Died):
        roll_back_dead_writers(open_table(table.location, storage=dying).table, OPTIONS)
    [pending] = [one for one in table.table.timeline().pending() if one.action == "rollback"]
    return dead.last_instant, pending.requested_at


def replace_plan(
    table: ScenarioTable, target: str, rollback_instant: str, files: dict[str, tuple[str, ...]]
) -> None:
    planted = RollbackPlanFile(target, "commit", files).encode(table.storage.location)
    path = f"{TIMELINE}/{rollback_instant}.rollback.requested"
    table.storage.put(path, planted)


@pytest.mark.parametrize("way_out", ["../victim", "city/../../victim", "./../victim"])
def test_planted_plan_that_climbs_out_of_the_table_deletes_nothing_there(
    table: ScenarioTable, victim: Path, way_out: str
) -> None:
    target, by = rollback_that_died_after_its_decision(table)
    file = victim.with_name(f"victim_{target}.parquet")
    file.write_text("somebody else's")
    replace_plan(table, target, by, {"": (f"{way_out}_{target}.parquet",)})

    table.writer("next").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert file.read_text() == "somebody else's"
    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    assert table.orphan_files() == []


def test_planted_plan_with_absolute_paths_of_another_table_deletes_nothing_there(
    table: ScenarioTable, victim: Path
) -> None:
    target, by = rollback_that_died_after_its_decision(table)
    file = victim.with_name(f"victim_{target}.parquet")
    file.write_text("somebody else's")
    encoded = RollbackPlanFile(target, "commit", {"": (f"victim_{target}.parquet",)}).encode(
        str(victim.parent)
    )
    table.storage.put(f"{TIMELINE}/{by}.rollback.requested", encoded)

    table.writer("next").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert file.exists()
    assert table.orphan_files() == []


def test_planted_plan_that_names_a_committed_file_does_not_delete_it(
    table: ScenarioTable,
) -> None:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    [committed] = table.data_files()
    target, by = rollback_that_died_after_its_decision(table)
    replace_plan(table, target, by, {"": (committed,)})

    table.writer("next").upsert_and_commit({"id": 2, "city": "Bergen"})

    assert [row["id"] for row in table.rows()] == [1, 2]


@pytest.mark.parametrize("content", [b"", b"{", b"Obj\x01 torn", b"null"])
def test_rollback_plan_that_is_damaged_heals_without_anybodys_hand(
    table: ScenarioTable, content: bytes
) -> None:
    """An empty rollback.requested stopped Hudi for ever (bug A8)."""
    target, by = rollback_that_died_after_its_decision(table)
    table.storage.put(f"{TIMELINE}/{by}.rollback.requested", content)

    table.writer("next").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    assert table.table.timeline().find(target) is None
    assert table.orphan_files() == []
    assert list(table.table.timeline().pending()) == []


@pytest.mark.parametrize(
    "target",
    [
        "",
        "../../victim",
        "2026",
        "x" * 40,
        LONG_AGO,
    ],
)
def test_rollback_plan_for_an_instant_that_never_was_is_discarded(
    table: ScenarioTable, target: str
) -> None:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    replace_plan(table, target, "20300101000000000", {"": tuple(table.data_files())})

    table.writer("next").upsert_and_commit({"id": 2, "city": "Bergen"})

    assert [row["id"] for row in table.rows()] == [1, 2]
    assert list(table.table.timeline().pending()) == []


def test_rollback_plan_for_an_action_that_is_none_is_made_anew(table: ScenarioTable) -> None:
    target, by = rollback_that_died_after_its_decision(table)
    planted = RollbackPlanFile(target, "party", {}).encode(table.storage.location)
    table.storage.put(f"{TIMELINE}/{by}.rollback.requested", planted)

    table.writer("next").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    assert table.table.timeline().find(target) is None
    assert table.orphan_files() == []


def marker_lines(table: ScenarioTable, writer: ScenarioWriter, *lines: str) -> None:
    directory = markers_directory(writer.last_instant)
    table.storage.put(f"{directory}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    table.storage.put(f"{directory}/MARKERS0", "".join(f"{line}\n" for line in lines).encode())


@pytest.mark.parametrize(
    "name", ["../victim", "/{parent}/victim", "city/../../victim", ".hoodie/hoodie.properties"]
)
@pytest.mark.parametrize("dies", [True, False])
def test_planted_marker_that_points_outside_deletes_nothing(
    table: ScenarioTable, victim: Path, name: str, dies: bool
) -> None:
    victim.write_text("somebody else's")
    writer = table.writer("writer").upsert({"id": 1, "city": "Oslo"})
    path = name.format(parent=str(victim.parent).lstrip("/"))
    marker_lines(
        table, writer, f"{path}.marker.CREATE", f"{path}_{writer.last_instant}.marker.MERGE"
    )

    if dies:
        writer.dies()
        roll_back_dead_writers(table.table, OPTIONS)
    else:
        writer.wins()

    assert victim.read_text() == "somebody else's"
    assert table.orphan_files() == []
    assert table.leftovers() == []


@pytest.mark.parametrize("dies", [True, False])
def test_marker_that_names_another_commits_file_does_not_delete_it(
    table: ScenarioTable, dies: bool
) -> None:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    [committed] = table.data_files()
    writer = table.writer("writer").upsert({"id": 2, "city": "Bergen"})
    marker_lines(table, writer, f"{committed}.marker.CREATE")

    if dies:
        writer.dies()
        roll_back_dead_writers(table.table, OPTIONS)
    else:
        writer.wins()

    assert committed in table.data_files()
    assert {"id": 1, "city": "Oslo"} in table.rows()


def test_completed_file_of_no_bytes_is_not_completed(table: ScenarioTable) -> None:
    """Bug A7: never `completed, with no files`."""
    table.excuse_referee("hudi-rs reads no table with such a file")
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    dead = table.writer("dead").upsert({"id": 1, "city": "Rome"}, {"id": 2, "city": "Rome"})
    dead.dies()
    empty = f"{TIMELINE}/{dead.last_instant}_29990101000000000.commit"
    table.storage.put(empty, b"")

    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    assert table.table.timeline().find(dead.last_instant) is not None
    assert table.timeline()[-1] == ("commit", "inflight")


def test_completed_file_of_no_bytes_goes_with_the_rollback_of_its_instant(
    table: ScenarioTable,
) -> None:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    dead = table.writer("dead").upsert({"id": 2, "city": "Rome"})
    dead.dies()
    empty = f"{TIMELINE}/{dead.last_instant}_29990101000000000.commit"
    table.storage.put(empty, b"")

    table.writer("next").upsert_and_commit({"id": 3, "city": "Bergen"})

    assert [row["id"] for row in table.rows()] == [1, 3]
    assert table.orphan_files() == []
    assert table.storage.info(empty) is None


def test_foreign_writer_without_a_heartbeat_is_rolled_back(table: ScenarioTable) -> None:
    foreign = plant_pending(table, "commit")

    table.writer("next").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert table.table.timeline().find(foreign) is None
    assert ("rollback", "completed") in table.timeline()


def test_foreign_writer_with_an_empty_fresh_heartbeat_is_left_alone(table: ScenarioTable) -> None:
    foreign = plant_pending(table, "commit")
    table.storage.put(f".hoodie/.heartbeat/{foreign}", b"")

    table.writer("next").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert table.table.timeline().find(foreign) is not None


@pytest.mark.parametrize(
    "action", ["compaction", "clean", "indexing", "logcompaction", "clustering"]
)
def test_pending_table_services_of_others_are_left_alone(
    tables: ScenarioTables, action: str
) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    foreign = plant_pending(table, action)

    table.writer("next").upsert_and_commit({"id": "a", "ts": 1, "value": 1})

    pending = table.table.timeline().find(foreign)
    assert pending is not None
    assert pending.action == action


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "20260101000000000.commit.requested.tmp",
        "20260101.commit",
        "20260101000000000_20260101000000001.newaction",
        "history",
    ],
)
def test_files_that_are_no_instants_are_no_instants(table: ScenarioTable, name: str) -> None:
    table.storage.put(f"{TIMELINE}/{name}", b"x")

    table.writer("next").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert len(table.instants()) == 2


def test_heartbeat_that_is_no_instant_or_no_json_stops_nobody(table: ScenarioTable) -> None:
    for name, content in (("README", b"x"), (LONG_AGO, b"{torn"), ("20200101000000001", b"[1]")):
        table.storage.put(f".hoodie/.heartbeat/{name}", content)

    table.writer("next").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert table.rows() == [{"id": 1, "city": "Oslo"}]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", json.dumps({"outcome": "party"}).encode()]
)
def test_damaged_decision_of_a_dead_writer_is_named_and_deletes_nothing_of_others(
    table: ScenarioTable, content: bytes
) -> None:
    """Nobody can tell which way it was decided: a person has to, so it is said which instant."""
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    dead = table.writer("dead").upsert({"id": 2, "city": "Rome"})
    dead.dies()
    table.storage.put(f".hoodie/.sluice/decision/{dead.last_instant}", content)

    with pytest.raises(Exception, match=dead.last_instant):
        table.writer("next").upsert_and_commit({"id": 3, "city": "Bergen"})

    assert len(table.data_files()) == 2


def plant_pending(table: ScenarioTable, action: str) -> str:
    """Requested and inflight as Hudi leaves them, without anything of ours."""
    instant = "20260101000000000"
    infix = "" if action == "commit" else f".{action}"
    table.storage.put(f"{TIMELINE}/{instant}.{action}.requested", b"")
    table.storage.put(f"{TIMELINE}/{instant}{infix}.inflight", b"")
    return instant
