"""What a rollback would delete: the same files by markers, without them, and with damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.scenario_table import READINGS, Row, ScenarioTable
from workers.files.names import BaseFileName, LogFileName
from workers.files.partition import ensure_partition
from workers.markers.marker import markers_directory
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.plan import plan_rollback
from workers.recovery.rollback import RollbackRequest, rollback

OPTIONS = write_options({})


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> ScenarioTable:
    made = ScenarioTable(
        tmp_path / "table",
        table_type=request.param,
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"],
    )
    made.writer("first").upsert_and_commit(row("a", "oslo"), row("b", "bergen"))
    return made


def row(key: str, place: str, ts: int = 1) -> Row:
    return {"id": key, "place": place, "ts": ts, "value": 1, "note": None}


def planned(table: ScenarioTable, instant: str) -> set[str]:
    return {file.path for file in plan_rollback(table.table, instant).files}


def damage_type_file(directory: Path) -> None:
    (directory / "MARKERS.type").unlink(missing_ok=True)


def remove_everything(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()


def tear_a_line(directory: Path) -> None:
    with (directory / "MARKERS0").open("ab") as stream:
        stream.write(b"oslo/00000000-half-a-na")


def claim_the_other_type(directory: Path) -> None:
    (directory / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")


@pytest.mark.parametrize(
    "damage", [damage_type_file, remove_everything, tear_a_line, claim_the_other_type]
)
def test_damaged_markers_change_nothing_of_the_plan(
    table: ScenarioTable, damage: Callable[[Path], None]
) -> None:
    """Markers and listing agree in every state (bugs B5, B7; invariant RB4)."""
    before = set(table.data_files())
    dead = table.writer("dead").upsert(row("a", "oslo", 2), row("c", "rome"))
    dead.dies()
    written = set(table.data_files()) - before
    assert planned(table, dead.last_instant) == written

    damage(table.location / markers_directory(dead.last_instant))

    assert planned(table, dead.last_instant) == written
    roll_back_dead_writers(table.table, OPTIONS)
    assert set(table.data_files()) == before


def test_plan_takes_files_of_foreign_names_that_carry_the_instant(table: ScenarioTable) -> None:
    """A Hudi writer names its file groups by chance, and a new partition has no metadata yet."""
    instant = "20250101000000000"
    table.storage.put(f".hoodie/timeline/{instant}.commit.requested", b"")
    group = "5f2a3c1e-91d0-4a41-b1a7-0c7f6f1d2a3b-0"
    base = f"oslo/{BaseFileName(group, '1-2-3', instant).text}"
    log = f"rome/{LogFileName(group, instant, 1, '1-2-3').text}"
    for path in (base, log):
        table.storage.put(path, b"x")
    ensure_partition(table.storage, "rome", instant)

    assert planned(table, instant) == {base, log}


def test_plan_never_names_files_of_another_instant(table: ScenarioTable) -> None:
    dead = table.writer("dead").upsert(row("a", "oslo", 2))
    dead.dies()

    names = planned(table, dead.last_instant)

    assert names
    assert all(dead.last_instant in name for name in names)


def test_hash_changes_with_every_fact_that_was_shown(table: ScenarioTable) -> None:
    busy = table.writer("busy").upsert(row("a", "oslo", 2))
    hashes = [plan_rollback(table.table, busy.last_instant).plan_hash]

    assert plan_rollback(table.table, busy.last_instant).plan_hash == hashes[0]
    [file] = plan_rollback(table.table, busy.last_instant).files
    with (table.location / file.path).open("ab") as stream:
        stream.write(b"more")
    hashes.append(plan_rollback(table.table, busy.last_instant).plan_hash)
    busy.write(row("c", "rome"), attempt=1)
    hashes.append(plan_rollback(table.table, busy.last_instant).plan_hash)

    assert len(set(hashes)) == 3


def test_rollback_of_a_commit_whose_metadata_is_damaged_is_possible(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit(row("a", "oslo", 9))
    instant = table.table.timeline().find(wrong.instant)
    assert instant is not None
    table.storage.put(table.table.layout.path(instant), b"damaged")

    rollback(table.table, RollbackRequest(wrong.instant, by="admin", reason="damage"), OPTIONS)

    assert [(one["id"], one["ts"]) for one in table.rows()] == [("a", 1), ("b", 1)]
    assert table.orphan_files() == []


def test_progress_is_told_file_by_file(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit(row("a", "oslo", 9), row("b", "bergen", 9))
    progress: list[tuple[int, int]] = []

    rollback(
        table.table,
        RollbackRequest(wrong.instant, by="admin", reason="test"),
        OPTIONS,
        on_progress=lambda done, total: progress.append((done, total)),
    )

    assert progress == [(1, 2), (2, 2)]
