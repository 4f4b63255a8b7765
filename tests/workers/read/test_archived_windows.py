"""Windows and moments across table services, archiving and cleaning: the full answer or a clear
error, never a silent part (TL5, TL12, A13).

One history with every kind of commit; what it said at each time is compared before and after its
commits are archived and its files cleaned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables, schema_of
from tests.support.table_services import run
from tests.support.watched_storage import WatchedStorage
from tests.workers.read.diary import Diary, changes, read
from workers.concurrency.outcome import Committed
from workers.errors import SnapshotExpired
from workers.lakehouse import open_table
from workers.read.request import EARLIEST
from workers.schema.alter import AddColumn, DropColumn
from workers.timeline.archive import list_archived_instants

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
kinds = pytest.mark.parametrize("kind", KINDS)
DIRECT = {"hoodie.write.markers.type": "direct"}
ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}
KEEP_ONE = {"policy": "KEEP_LATEST_FILE_VERSIONS", "versions": "1", "retention_minutes": "0"}
ARCHIVE_ALL = {"min_commits": "1", "max_commits": "1", "uncompacted_logs": "true"}
CITIES = schema_of(id=pa.string(), city=pa.string())


def readings(numbers: range, *, ts: int) -> list[Row]:
    return [
        {"id": f"k{one}", "place": f"p{one % 3}", "ts": ts, "value": ts, "note": f"{ts}/{one}"}
        for one in numbers
    ]


def eventful(tables: ScenarioTables, kind: str) -> Diary:
    """Upserts around a compaction, a clustering, a rollback and two replacements."""
    table = tables(
        table_type=kind,
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"],
        options=ONE_BUCKET,
    )
    diary = Diary(table)

    def write(operation: str, numbers: range, ts: int) -> Committed:
        batch = table.batch(readings(numbers, ts=ts))
        outcome = table.lakehouse.write(batch, operation, options=DIRECT)
        assert isinstance(outcome, Committed), outcome
        return outcome

    def compacted_or_clustered() -> None:
        if kind == "MERGE_ON_READ":
            run(table.table, "compaction", **{"hoodie.compact.inline.max.delta.commits": "1"})
        else:
            table.lakehouse.cluster(["value"], options=DIRECT)

    for step in (
        lambda: write("upsert", range(6), 1),
        lambda: write("upsert", range(2, 5), 2),
        compacted_or_clustered,
        lambda: write("upsert", range(4, 8), 3),
        lambda: undo(table, write("upsert", range(3), 4)),
        lambda: table.lakehouse.cluster(["id"], options=DIRECT),
        lambda: write("insert_overwrite", range(0, 4, 3), 5),
        lambda: table.lakehouse.delete_partition(["p1"], options=DIRECT),
        lambda: write("upsert", range(1, 6), 6),
        compacted_or_clustered,
        lambda: write("upsert", range(8, 10), 7),
    ):
        step()
        diary.note()
    return diary


def undo(table: ScenarioTable, done: Committed) -> None:
    table.lakehouse.rollback(done.instant, dry_run=False, reason="a test")


def unless_expired(look: Callable[..., Any], table: ScenarioTable, **request: str) -> Any:
    """What the read says; None when it says that the table does not go back that far."""
    try:
        return look(table, **request)
    except SnapshotExpired:
        return None


def refused(diary: Diary, windows: Iterable[tuple[str, str]]) -> int:
    """Of the windows and the moments at their ends: how many are refused. All others say what the
    diary says.
    """
    count = 0
    for since, until in windows:
        window = {"since": since, "until": until}
        page = diary.pages[until]
        then = [page[key] for key in sorted(page)]
        for rows_read, expected in (
            (unless_expired(read, diary.table, as_of=until), then),
            (unless_expired(read, diary.table, **window), diary.written(since, until)),
            (unless_expired(changes, diary.table, **window), diary.changes(since, until)),
        ):
            assert rows_read in (None, expected), window
            count += rows_read is None
    return count


@kinds
def test_every_window_reads_as_it_was_across_services_and_in_the_archive(
    tables: ScenarioTables, kind: str
) -> None:
    diary = eventful(tables, kind)
    times = diary.times
    assert refused(diary, [*pairwise(times), (EARLIEST, times[-1])]) == 0

    run(diary.table.table, "archive", **ARCHIVE_ALL)

    archived = {one.instant.completed_at for one in list_archived_instants(diary.table.storage)}
    assert {*times[1:3]} <= archived
    assert times[-1] not in archived
    in_archive = (times[1], times[2])
    assert refused(diary, [in_archive, (times[1], times[-1]), (EARLIEST, times[-1])]) == 0
    diary.table.excuse_referee("hudi-rs does not see logs of archived commits")


@pytest.mark.slow
@kinds
def test_window_whose_files_were_cleaned_is_refused_also_in_the_archive(
    tables: ScenarioTables, kind: str
) -> None:
    diary = eventful(tables, kind)
    times = diary.times
    windows = [(EARLIEST, times[1]), (times[1], times[4]), (times[4], times[-1])]
    run(diary.table.table, "clean", **KEEP_ONE)
    before = refused(diary, windows)
    assert before > 0

    for number in range(2):  # Writes after the clean, so that it is archived as well.
        batch = diary.table.batch(readings(range(10), ts=10 + number))
        diary.table.lakehouse.write(batch, options=DIRECT)
    run(diary.table.table, "archive", **ARCHIVE_ALL)

    assert len(diary.table.table.timeline().list_completed_writes()) < 4
    assert refused(diary, windows) == before
    with pytest.raises(SnapshotExpired, match=r"hoodie\.cleaner\.commits\.retained"):
        read(diary.table, as_of=times[1])
    diary.table.excuse_referee("hudi-rs does not see logs of archived commits")


def test_old_moments_have_the_schema_that_the_archive_tells(tables: ScenarioTables) -> None:
    table = tables(schema=CITIES, options=ONE_BUCKET)
    narrow = table.writer("w").upsert_and_commit({"id": "a", "city": "Oslo"})
    wide = table.writer("w").upsert_and_commit({"id": "a", "city": "Oslo", "note": "x"})
    table.writer("w").upsert_and_commit({"id": "b", "city": "Bern"})
    last = table.writer("w").upsert_and_commit({"id": "b", "city": "Bern", "size": 1})

    run(table.table, "archive", **ARCHIVE_ALL)

    assert len(table.table.timeline().list_completed_writes()) == 1
    columns = {
        at: open_table(table.location).read(as_of=at).column_names
        for at in (narrow.completed_at, wide.completed_at, last.completed_at)
    }
    assert list(columns.values()) == [
        ["id", "city"],
        ["id", "city", "note"],
        ["id", "city", "note", "size"],
    ]
    assert read(table, since=EARLIEST, until=narrow.completed_at) == [{"id": "a", "city": "Oslo"}]


def crossing(tables: ScenarioTables) -> tuple[ScenarioTable, str]:
    """The writer that began first ended last and brought a column; its completion time."""
    table = tables(table_type="MERGE_ON_READ", schema=CITIES)
    slow = table.writer("slow", mode="non-blocking")
    slow.upsert({"id": "a", "city": "Oslo", "note": "late"})
    table.writer("quick", mode="non-blocking").upsert_and_commit({"id": "b", "city": "Bern"})
    return table, slow.wins().completed_at


def test_schema_of_a_writer_that_ended_last_stays_when_it_is_archived(
    tables: ScenarioTables,
) -> None:
    table, ended_at = crossing(tables)
    table.writer("w").upsert_and_commit({"id": "c", "city": "Rome"})

    run(table.table, "archive", min_commits="2", max_commits="2", uncompacted_logs="true")

    archived = {one.instant.completed_at for one in list_archived_instants(table.storage)}
    assert ended_at in archived
    rows = read(table, as_of=ended_at)
    assert rows[0] == {"id": "a", "city": "Oslo", "note": "late"}
    table.excuse_referee("hudi-rs does not see logs of archived commits")


def test_newest_commit_is_never_archived_before_an_older_one(tables: ScenarioTables) -> None:
    table, ended_at = crossing(tables)

    run(table.table, "archive", **ARCHIVE_ALL)

    newest = table.table.timeline().list_completed_writes()[-1]
    assert (newest.completed_at or "") > ended_at, "it states the one that ended again"
    assert table.schema_columns() == ["id", "city", "note"]


def test_changes_show_no_values_of_a_dropped_column_as_those_of_its_namesake(
    tables: ScenarioTables,
) -> None:
    table = tables(schema=CITIES, options=ONE_BUCKET)
    table.writer("w").upsert_and_commit({"id": "a", "city": "Oslo"}, {"id": "b", "city": "Bern"})
    table.lakehouse.alter(AddColumn("note", pa.string()), options=DIRECT)
    table.writer("w").upsert_and_commit({"id": "a", "city": "Oslo", "note": "old"})
    table.lakehouse.alter(DropColumn("note"), options=DIRECT)
    table.writer("w").upsert_and_commit({"id": "a", "city": "Moss"})
    table.lakehouse.alter(AddColumn("note", pa.int64()), options=DIRECT)
    newest = schema_of(note=pa.int64())
    table.writer("w").upsert_and_commit({"id": "a", "city": "Moss", "note": 7}, schema=newest)

    images = [(one[0], one[2], one[3]) for one in changes(table, since=EARLIEST)]

    def image(city: str, note: int | None = None) -> Row:
        return {"id": "a", "city": city, "note": note}

    assert [one for one in images if (one[2] or {})["id"] == "a"] == [
        ("i", None, image("Oslo")),
        ("u", image("Oslo"), image("Oslo")),
        ("u", image("Oslo"), image("Moss")),
        ("u", image("Moss"), image("Moss", 7)),
    ]
    assert read(table)[1] == {"id": "b", "city": "Bern", "note": None}


def test_reader_beside_an_archiver_looks_once(tables: ScenarioTables) -> None:
    """What the archiver takes off the timeline is not taken back, even where its removal left
    holes (A10)."""
    table = tables(schema=CITIES, options=ONE_BUCKET)
    for _ in range(4):
        table.writer("w").upsert_and_commit({"id": "a", "city": "Oslo"})
    oldest = table.instants()[1]
    opened: list[str] = []

    def archive_beside(call: str, path: str) -> None:
        if call == "open_data":
            if not opened:
                path_of_oldest = table.table.layout.path(oldest)
                content = table.storage.read(path_of_oldest)
                run(table.table, "archive", **ARCHIVE_ALL)
                table.storage.put(path_of_oldest, content)  # A listing saw it, and not the next.
            opened.append(path)

    storage = WatchedStorage(table.location, before=archive_beside)
    rows = open_table(table.location, storage=storage).read()

    assert rows.to_pylist() == [{"id": "a", "city": "Oslo"}]
    assert len(opened) == 1
    table.writer("w").upsert_and_commit({"id": "a", "city": "Bern"})  # Removes it again.
