"""Parts of the archived timeline are lost: the current state is read, written and serviced without
them, and what needs them is refused by name.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.table_services import plan, run
from tests.workers.table_services.test_late_files import archived
from workers.errors import HistoryLost
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.readability import ADOPTED_KEY, HISTORY_KEY, OWN_KEY
from workers.table.view import FileSystemView
from workers.table_layout import ARCHIVED_WRITES, HISTORY, HISTORY_FILES
from workers.timeline import decisions
from workers.timeline.decision_lookup import find_decision, is_gone

TYPES: dict[str, pa.DataType] = {"id": pa.string(), "v": pa.int32()}
SCHEMA = pa.schema(TYPES)
KINDS = ("MERGE_ON_READ", "COPY_ON_WRITE")
LIMITS = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
TAKES_LOGS = "sluice.archive.uncompacted.logs"


def files_in(history: Path) -> list[Path]:
    return sorted(history.glob("*.parquet"))


def manifests_in(history: Path) -> list[Path]:
    return sorted(history.glob("manifest_*"), key=lambda path: int(path.name[9:]))


def remove(number: int) -> Callable[[Path], object]:
    return lambda history: files_in(history)[number].unlink()


def retire(number: int) -> Callable[[Path], None]:
    """As an operator's retention: neither the disk nor the manifest has the file any more."""

    def retired(history: Path) -> None:
        gone = files_in(history)[number]
        newest = manifests_in(history)[-1]
        body = json.loads(newest.read_text())
        body["files"] = [one for one in body["files"] if one["fileName"] != gone.name]
        newest.write_text(json.dumps(body))
        gone.unlink()

    return retired


def truncate(number: int) -> Callable[[Path], object]:
    return lambda history: files_in(history)[number].write_bytes(b"PAR1")


def tear(*numbers: int) -> Callable[[Path], None]:
    def torn(history: Path) -> None:
        for number in numbers:
            manifests_in(history)[number].write_text("{")

    return torn


def remove_manifests(history: Path) -> None:
    for path in manifests_in(history):
        path.unlink()


LOSSES: Mapping[str, Callable[[Path], object]] = {
    "oldest file gone": remove(0),
    "middle file gone": remove(1),
    "newest file gone": remove(-1),
    "oldest file damaged": truncate(0),
    "newest file damaged": truncate(-1),
    "oldest file retired": retire(0),
    "middle file retired": retire(1),
    "newest file retired": retire(-1),
    "newest manifest torn": tear(-1),
    "all manifests torn": tear(0, 1, 2),
    "manifests gone": remove_manifests,
    "pointer gone": lambda history: (history / "_version_").unlink(),
    "directory gone": shutil.rmtree,
}
NOTHING_LOST = ("newest manifest torn", "all manifests torn", "manifests gone", "pointer gone")


def made(place: Path, kind: str, *, takes_logs: bool = False) -> LakehouseTable:
    """A table whose history has three files, and some commits that are active still."""
    options = {"hoodie.bucket.index.num.buckets": "1"}
    table = create_table(
        place, name="t", schema=SCHEMA, record_key=["id"], table_type=kind, options=options
    )
    for number in range(14):
        write(table, f"k{number % 5}", number)
        if number % 4 == 3:
            if kind == "MERGE_ON_READ" and not (takes_logs and number > 3):
                table.compact()
            table.archive(LIMITS | ({TAKES_LOGS: "true"} if takes_logs else {}))
    return table


def write(table: LakehouseTable, key: str, number: int) -> None:
    table.write(pa.table({"id": [key], "v": pa.array([number], pa.int32())}, schema=SCHEMA))


def rows_of(table: LakehouseTable, as_of: str | None = None) -> list[tuple[str, int]]:
    return sorted((row["id"], row["v"]) for row in table.read(as_of=as_of).to_pylist())


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, bool], Path]:
    """Tables made once and copied for each case, by kind and whether archiving took logs along."""
    root = tmp_path_factory.mktemp("tables")
    kinds = {(kind, False): root / kind for kind in KINDS} | {
        ("MERGE_ON_READ", True): root / "logs"
    }
    for (kind, takes_logs), place in kinds.items():
        made(place, kind, takes_logs=takes_logs)
    return kinds


@pytest.fixture(params=[(kind, False) for kind in KINDS] + [("MERGE_ON_READ", True)], ids=str)
def place(
    request: pytest.FixtureRequest, places: Mapping[tuple[str, bool], Path], tmp_path: Path
) -> Path:
    return shutil.copytree(places[request.param], tmp_path / "t")


def history_of(place: Path) -> Path:
    return place / HISTORY.path


ROWS = [("k0", 10), ("k1", 11), ("k2", 12), ("k3", 13), ("k4", 9)]


def forget_notes(place: Path) -> None:
    """As an archiver of an earlier version leaves the table."""
    for note in (ARCHIVED_WRITES, HISTORY_FILES):
        (place / note.path).unlink()


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("loss", LOSSES)
def test_current_state_needs_no_part_of_the_history(place: Path, loss: str) -> None:
    LOSSES[loss](history_of(place))

    check_everything_works(place)

    assert bool(open_table(place).table.list_lost_history()) == (loss not in NOTHING_LOST)


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_current_state_needs_no_part_of_a_history_without_notes(
    places: Mapping[tuple[str, bool], Path], tmp_path: Path, kind: str, loss: str
) -> None:
    place = shutil.copytree(places[kind, False], tmp_path / "t")
    forget_notes(place)
    LOSSES[loss](history_of(place))

    check_everything_works(place)


def check_everything_works(place: Path) -> None:
    assert rows_of(open_table(place)) == ROWS
    now = open_table(place).table.timeline().list_completed_writes()[-1].completed_at
    assert rows_of(open_table(place), as_of=now) == ROWS

    write(open_table(place), "z", 1)
    open_table(place).clean({"hoodie.clean.commits.retained": "1"})
    if open_table(place).table.config.is_merge_on_read:
        open_table(place).compact()
    for number in range(4):
        write(open_table(place), "y", number)
    open_table(place).archive(LIMITS)

    now = open_table(place).table.timeline().list_completed_writes()[-1].completed_at
    assert rows_of(open_table(place)) == [*ROWS, ("y", 3), ("z", 1)]
    assert rows_of(open_table(place), as_of=now) == [*ROWS, ("y", 3), ("z", 1)]


# ---- the past


def test_past_that_needs_a_lost_file_is_refused_by_its_name(place: Path) -> None:
    table = open_table(place).table
    oldest = table.list_archived_times()[0].requested_at
    later = table.list_archived_times()[-1].completed_at
    gone = files_in(history_of(place))[0]
    gone.unlink()

    for read in (
        lambda: open_table(place).read(query="incremental", since=oldest),
        lambda: open_table(place).read(as_of=oldest),
        lambda: open_table(place).timeline(archived=True),
    ):
        with pytest.raises(HistoryLost, match=f"put the files back.*missing={gone.name}"):
            read()
    assert open_table(place).read(query="incremental", since=later).num_rows > 0


def test_file_that_is_put_back_counts_again_although_archiving_went_on(place: Path) -> None:
    oldest = open_table(place).table.list_archived_times()[0].requested_at
    before = open_table(place).read(query="incremental", since=oldest).num_rows
    gone = files_in(history_of(place))[0]
    content = gone.read_bytes()
    gone.unlink()
    for number in range(4):
        write(open_table(place), f"k{number}", number)
    if open_table(place).table.config.is_merge_on_read:
        open_table(place).compact()
    open_table(place).archive(LIMITS)
    [lost] = open_table(place).table.list_lost_history()
    assert lost.file.name == gone.name
    newest = json.loads(manifests_in(history_of(place))[-1].read_text())
    assert gone.name not in [one["fileName"] for one in newest["files"]]

    gone.write_bytes(content)

    assert open_table(place).table.list_lost_history() == ()
    assert open_table(place).read(query="incremental", since=oldest).num_rows == before


# ---- files of writers that never committed


@pytest.mark.parametrize("loss", ["oldest file gone", "oldest file retired", "directory gone"])
@pytest.mark.parametrize("kind", KINDS)
def test_file_of_a_rolled_back_writer_is_never_seen_though_the_history_is_lost(
    tables: ScenarioTables, kind: str, loss: str
) -> None:
    table, instant, path = archived(tables, kind)
    table.excuse_referee("hudi-rs counts files of unknown instants")
    before = table.rows()
    LOSSES[loss](history_of(Path(table.location)))

    assert table.rows() == before
    assert (instant, path) in FileSystemView.load(table.table).uncommitted
    run(table.table, "clean", commits="1")
    table.writer("next").upsert_and_commit({"id": 3, "city": "Bergen"})
    if kind == "MERGE_ON_READ":
        run(table.table, "compaction")

    rows = sorted([*before, {"id": 3, "city": "Bergen"}], key=lambda row: row["id"])
    assert table.rows() == rows
    table.reported.clear()
    table.storage.delete(path)


def test_repair_keeps_a_file_whose_commit_only_the_lost_part_would_tell(
    tables: ScenarioTables,
) -> None:
    table, instant, path = archived(tables, "MERGE_ON_READ")
    table.excuse_referee("hudi-rs counts files of unknown instants")
    shutil.rmtree(history_of(Path(table.location)))

    shown = plan(table.table, "repair")

    assert path not in [one.what for one in shown.items]
    assert any("is lost" in warning and path in warning for warning in shown.warnings)
    assert not is_gone(table.storage, instant)
    with pytest.raises(HistoryLost, match=r"missing=\d+_\d+_0\.parquet"):
        find_decision(table.storage, instant)
    table.reported.clear()
    table.storage.delete(path)


def as_foreign(table: ScenarioTable) -> ScenarioTable:
    properties = load_properties(table.storage)
    for key in (HISTORY_KEY, ADOPTED_KEY, OWN_KEY):
        properties.pop(key, None)
    store_properties(table.storage, properties)
    forget_notes(Path(table.location))
    return table


@pytest.mark.parametrize("border", [None, "99990101000000000"])
def test_late_log_below_the_border_of_the_known_history_is_not_seen(
    tables: ScenarioTables, border: str | None
) -> None:
    """Of a table of another engine, and of one that was adopted later: its rollback tells."""
    table, instant, path = archived(tables, "MERGE_ON_READ")
    table.excuse_referee("hudi-rs counts files of unknown instants")
    before = table.rows()
    as_foreign(table)
    if border:
        properties = load_properties(table.storage)
        store_properties(table.storage, properties | {HISTORY_KEY: border})

    reopened = open_table(table.location)

    assert reopened.read().num_rows == len(before)
    assert (instant, path) in FileSystemView.load(reopened.table).uncommitted
    table.storage.delete(path)


def test_late_log_of_which_nothing_tells_is_refused_only_where_it_could_count(
    tables: ScenarioTables, tmp_path: Path
) -> None:
    """No note, no history, no rollback: a later base file of its group is the last evidence."""
    table, instant, path = archived(tables, "MERGE_ON_READ")
    before = table.rows()
    place = shutil.copytree(table.location, tmp_path / "copy")
    table.storage.delete(path)
    forget_notes(place)
    shutil.rmtree(history_of(place))
    assert open_table(place).read().num_rows == len(before), "its group has a later base file"
    for base in (place / path).parent.glob("*.parquet"):
        base.unlink()

    with pytest.raises(HistoryLost, match=f"never committed: instant={instant} file={path}"):
        open_table(place).read()


def test_notes_are_made_by_an_archive_that_finds_nothing_to_do(place: Path) -> None:
    forget_notes(place)

    assert open_table(place).archive().summary == "nothing to archive"

    noted = json.loads((place / ARCHIVED_WRITES.path).read_text())
    table = open_table(place).table
    assert noted["border"] == decisions.load_archive_border(table.storage)
    times = {one.requested_at: one.completed_at for one in table.list_archived_times()}
    assert noted["completed"]
    assert noted["completed"].items() <= times.items()
