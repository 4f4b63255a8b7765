"""A file of an instant that was rolled back long ago: its decision is archived, its writer woke up
late, and nobody counts what it left (TL14). So it is with the pending file of an archived plan.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MemoryStorage
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.table_services import plan, run
from workers.clock import InstantTime
from workers.errors import InstantRolledBack
from workers.files.names import parse_base_file
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import open_table
from workers.markers.direct import DirectMarkers
from workers.markers.marker import IOType, Marker
from workers.options.readability import ADOPTED_KEY, HISTORY_KEY, OWN_KEY
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.table.view import FileSystemView
from workers.timeline import decisions
from workers.timeline.decision_lookup import find_decision, is_gone
from workers.timeline.instant import Action, Instant, State

ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}
LIMITS = {"min_commits": "2", "max_commits": "3"}
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def archived(tables: ScenarioTables, kind: str) -> tuple[ScenarioTable, InstantTime, str]:
    """A table, an instant of it that was rolled back and archived since, and the data file that it
    left, as it is once its writer has woken up and been killed.
    """
    table = tables(table_type=kind, options=ONE_BUCKET)
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    late = table.writer("late").upsert({"id": 2, "city": "never committed"})
    [path] = [status.stat.path for status in late.written]
    content = table.storage.read(path)
    late.dies()
    roll_back_dead_writers(table.table, write_options({}))
    for number in range(4):
        table.writer("w").upsert_and_commit({"id": 9, "city": f"city {number}"})
    if kind == "MERGE_ON_READ":
        run(table.table, "compaction")
        for number in range(4):
            table.writer("w").upsert_and_commit({"id": 9, "city": f"town {number}"})
    run(table.table, "archive", **LIMITS)
    assert decisions.read(table.storage, late.last_instant) is None
    assert late.last_instant < (table.table.timeline().first_time or "")
    table.storage.put(path, content)
    return table, late.last_instant, path


@pytest.fixture(params=KINDS)
def scene(
    request: pytest.FixtureRequest, tables: ScenarioTables
) -> tuple[ScenarioTable, InstantTime, str]:
    table, instant, path = archived(tables, request.param)
    table.excuse_referee("hudi-rs counts files of unknown instants")
    return table, instant, path


def test_rows_of_a_late_file_are_never_seen_and_never_merged(
    scene: tuple[ScenarioTable, InstantTime, str],
) -> None:
    table, instant, path = scene
    before = table.rows()
    assert "never committed" not in str(before)
    assert (instant, path) in FileSystemView.load(table.table).uncommitted
    moment = table.table.timeline().list_completed_writes()[-1].completed_at
    assert open_table(table.location).read(as_of=moment).num_rows == len(before)

    table.writer("next").upsert_and_commit({"id": 3, "city": "Bergen"})

    assert table.rows() == sorted([*before, {"id": 3, "city": "Bergen"}], key=lambda row: row["id"])
    assert path not in table.data_files()


def test_clean_names_a_late_file_and_removes_it(
    scene: tuple[ScenarioTable, InstantTime, str],
) -> None:
    table, _, path = scene
    before = table.rows()

    shown = plan(table.table, "clean", commits="100")
    run(table.table, "clean", commits="100", expected_plan_hash=shown.plan_hash)

    assert {one.what: one.detail for one in shown.items}[path] == "written after it was rolled back"
    assert path not in table.data_files()
    assert table.rows() == before


def test_instant_that_is_settled_for_good_gets_no_marker_file_or_commit(
    scene: tuple[ScenarioTable, InstantTime, str],
) -> None:
    table, instant, path = scene
    partition, _, name = path.rpartition("/")
    markers = DirectMarkers(table.storage, instant)

    with pytest.raises(InstantRolledBack):
        markers.create(Marker(partition, name, IOType.CREATE))
    with pytest.raises(InstantRolledBack):
        markers.create_all([Marker(partition, name, IOType.CREATE)])

    assert decisions.is_decided(table.storage, instant)
    assert is_gone(table.storage, instant)


def test_what_the_history_holds_was_committed_and_what_it_lacks_was_not(
    scene: tuple[ScenarioTable, InstantTime, str],
) -> None:
    table, instant, _ = scene
    for archived_time in table.table.list_archived_times():
        settled = find_decision(table.storage, archived_time.requested_at)
        assert isinstance(settled, decisions.CommitDecision)
        assert settled.completed_at == archived_time.completed_at
    slept = decisions.CommitDecision("99990101000000000", "n", "commit", "")
    table.storage.put(decisions.get_decision_path(instant), decisions._encode(slept))

    assert isinstance(find_decision(table.storage, instant), decisions.RollbackDecision)


def test_decision_stays_until_its_instant_lies_within_the_history() -> None:
    """Between the last archived instant and the active start no history tells of a rollback."""
    storage = MemoryStorage(StillClock())
    for number in (3, 5, 7):
        decision = decisions.RollbackDecision("99", "n", "test")
        decisions.decide(storage, f"2026010100000000{number}", decision)
    decisions.raise_archived_before(storage, "20260101000000008")

    decisions.remove_archived(storage, (), "20260101000000006")

    assert decisions.list_decided_instants(storage) == ["20260101000000007"]


@pytest.mark.parametrize("kind", KINDS)
def test_table_whose_history_is_gone_shows_every_row_and_is_cleaned(
    tables: ScenarioTables, kind: str
) -> None:
    table, _, path = archived(tables, kind)
    table.storage.delete(path)
    before = table.rows()
    shutil.rmtree(Path(table.location) / ".hoodie/timeline/history")

    assert table.rows() == before
    run(table.table, "clean", commits="1")
    table.writer("next").upsert_and_commit({"id": 3, "city": "Bergen"})

    assert [row["id"] for row in table.rows()] == [1, 3, 9]
    table.excuse_referee("only the archived part of its timeline is damaged")
    table.reported.clear()


def test_base_file_that_an_archive_of_later_does_not_reach_counts(tables: ScenarioTables) -> None:
    """The history was lost, and archiving went on: it begins later than the oldest files."""
    table = tables(options=ONE_BUCKET | {"hoodie.bucket.index.num.buckets": "64"})
    table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})
    for number in range(5):
        table.writer("w").upsert_and_commit({"id": 9, "city": f"city {number}"})
    run(table.table, "archive", **LIMITS)
    shutil.rmtree(Path(table.location) / ".hoodie/timeline/history")
    for number in range(5):
        table.writer("w").upsert_and_commit({"id": 9, "city": f"town {number}"})
    run(table.table, "archive", **LIMITS)

    assert table.rows() == [{"id": 1, "city": "Oslo"}, {"id": 9, "city": "town 4"}]
    table.reported.clear()


@pytest.mark.parametrize("history_since", [None, "99990101000000000"])
def test_base_file_of_before_the_border_counts_as_for_hudi(
    tables: ScenarioTables, history_since: str | None
) -> None:
    """Of a table that another engine made, and of one that was adopted or upgraded later."""
    table, _, path = archived(tables, "COPY_ON_WRITE")
    properties = load_properties(table.storage)
    for key in (HISTORY_KEY, ADOPTED_KEY, OWN_KEY):
        properties.pop(key, None)
    store_properties(
        table.storage, properties | ({HISTORY_KEY: history_since} if history_since else {})
    )
    reopened = open_table(table.location)

    assert path not in [one for _, one in FileSystemView.load(reopened.table).uncommitted]
    table.storage.delete(path)


def test_damaged_history_hides_no_base_file(tables: ScenarioTables) -> None:
    table, _, path = archived(tables, "COPY_ON_WRITE")
    table.storage.delete(path)
    before = table.rows()
    history = Path(table.location) / ".hoodie/timeline/history"
    kept = {file: file.read_bytes() for file in history.glob("*.parquet")}
    for file in kept:
        file.write_bytes(b"damaged")

    assert table.rows() == before

    for file, content in kept.items():
        file.write_bytes(content)


def test_table_tells_from_when_on_its_history_is_whole(tables: ScenarioTables) -> None:
    table = tables()

    since = load_properties(table.storage)[HISTORY_KEY]

    assert since <= table.instants()[0].requested_at
    assert table.table.config.history_since == since


# ---- pending files


@pytest.fixture
def revived(tables: ScenarioTables) -> tuple[ScenarioTable, str]:
    """A table, and the inflight file of its archived compaction, which a killed executor put."""
    table, _, path = archived(tables, "MERGE_ON_READ")
    table.storage.delete(path)
    bases = [parse_base_file(one.rpartition("/")[2]) for one in table.data_files()]
    newest = max(base.instant for base in bases if base is not None)
    assert table.table.timeline().find(newest) is None, "the compaction is not archived"
    compaction = Instant(newest, Action.COMPACTION, State.INFLIGHT)
    inflight = table.table.layout.path(compaction)
    table.storage.put(inflight, b"")
    return table, inflight


REMOVERS: Mapping[str, Callable[[ScenarioTable], object]] = {
    "the next writer": lambda table: table.writer("next").upsert_and_commit({"id": 9, "city": "x"}),
    "archive": lambda table: run(table.table, "archive"),
    "repair": lambda table: run(table.table, "repair"),
}


@pytest.mark.parametrize("remover", REMOVERS)
def test_pending_file_of_an_archived_compaction_hides_no_row_and_goes(
    revived: tuple[ScenarioTable, str], remover: str
) -> None:
    table, inflight = revived
    assert table.rows()[0] == {"id": 1, "city": "Oslo"}

    REMOVERS[remover](table)

    assert table.storage.info(inflight) is None
    run(table.table, "compaction")
    run(table.table, "clean", commits="1")
    assert table.rows()[0] == {"id": 1, "city": "Oslo"}


def test_repair_names_the_pending_file_of_an_archived_compaction(
    revived: tuple[ScenarioTable, str],
) -> None:
    table, inflight = revived

    [item] = plan(table.table, "repair").items

    assert item.what == inflight
    assert item.detail.endswith("is archived, and a stalled process put this file afterwards")
