"""Every version of one row: by which commit, and what it changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from workers import LakehouseTable, create_table, open_table
from workers.errors import InvalidInput
from workers.read.row_history import RowHistory, row_history

pytestmark = pytest.mark.sampled(every=2)

COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("ts", pa.int64()),
    pa.field("city", pa.string()),
    pa.field("day", pa.string()),
]
SCHEMA = pa.schema(COLUMNS)
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
INDEXES = [
    {"hoodie.bucket.index.num.buckets": "2"},
    {"hoodie.index.type": "BLOOM"},
]


def made(root: Path, kind: str, options: dict[str, str]) -> LakehouseTable:
    return create_table(
        root / "t",
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["day"],
        ordering=["ts"],
        table_type=kind,
        options=options,
    )


def write(table: LakehouseTable, *rows: tuple[str, int, str | None], day: str = "d1") -> str:
    made_rows = [{"id": id_, "ts": ts, "city": city, "day": day} for id_, ts, city in rows]
    outcome = table.write(pa.Table.from_pylist(made_rows, schema=SCHEMA))
    return str(outcome.instant)


def summary(history: RowHistory) -> list[tuple[str, Any, Any, tuple[str, ...]]]:
    def city(row: pa.Table | None) -> Any:
        return None if row is None else row.column("city")[0].as_py()

    return [
        (one.instant, city(one.before), city(one.after), one.changed) for one in history.versions
    ]


@pytest.mark.parametrize("options", INDEXES, ids=["bucket", "bloom"])
@pytest.mark.parametrize("kind", KINDS)
def test_versions_of_a_key_are_those_of_its_own_commits_newest_first(
    tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    table = made(tmp_path, kind, options)
    first = write(table, ("a", 1, "Oslo"), ("b", 1, "Rome"))
    write(table, ("b", 2, "Paris"))
    third = write(table, ("a", 3, "Bergen"))
    same = write(table, ("a", 4, "Bergen"))
    gone = str(table.delete(pa.table({"id": ["a"], "day": ["d1"]})).instant)
    again = write(table, ("a", 6, None))

    history = row_history(table.table, "a")

    assert summary(history) == [
        (again, None, None, ()),
        (gone, "Bergen", None, ()),
        (same, "Bergen", "Bergen", ("ts",)),
        (third, "Oslo", "Bergen", ("ts", "city")),
        (first, None, "Oslo", ()),
    ]
    assert history.cut_by == ""
    assert [one.after is None for one in history.versions] == [False, True, False, False, False]


def test_what_compaction_and_clustering_rewrite_is_no_version(tmp_path: Path) -> None:
    table = made(tmp_path, "MERGE_ON_READ", INDEXES[0])
    first = write(table, ("a", 1, "Oslo"), ("b", 1, "Rome"))
    table.compact()
    second = write(table, ("a", 2, "Bergen"))
    table.compact()
    table.cluster(["city"])

    assert [one.instant for one in row_history(table.table, "a").versions] == [second, first]


def test_history_stops_at_as_many_versions_as_are_wanted_and_says_so(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[0])
    instants = [write(table, ("a", at, f"c{at}")) for at in range(4)]

    history = row_history(table.table, "a", versions_max=2)

    assert [one.instant for one in history.versions] == [instants[3], instants[2]]
    assert history.cut_by == "versions"


def test_history_whose_time_is_up_shows_what_it_read(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[0])
    for at in range(3):
        write(table, ("a", at, f"c{at}"))
    reads = iter([True, True, False])

    history = row_history(table.table, "a", may_go_on=lambda: next(reads))

    assert len(history.versions) == 1
    assert history.cut_by == "time"


def test_history_behind_a_cleaned_file_says_that_it_was_cleaned(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[0])
    for at in range(4):
        write(table, ("a", at, f"c{at}"))
    table.clean({"hoodie.clean.commits.retained": "1"})

    history = row_history(open_table(tmp_path / "t").table, "a")

    assert history.cut_by == "cleaned"
    assert 1 <= len(history.versions) < 4


def test_key_is_looked_for_in_one_partition_alone_where_one_is_named(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[0])
    here = write(table, ("a", 1, "Oslo"), day="d1")
    write(table, ("a", 1, "Rome"), day="d2")

    assert len(row_history(table.table, "a").versions) == 2
    (version,) = row_history(table.table, "a", partition="d1").versions
    assert version.instant == here


def test_column_that_may_not_be_compared_changes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[0])
    write(table, ("a", 1, "Oslo"))
    write(table, ("a", 2, "Bergen"))

    newest, _ = row_history(table.table, "a", compared=lambda name: name != "city").versions

    assert newest.changed == ("ts",)


def test_key_that_nobody_wrote_has_no_version(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[1])
    write(table, ("a", 1, "Oslo"))

    assert row_history(table.table, "z").versions == ()
    with pytest.raises(InvalidInput, match="sensible length"):
        row_history(table.table, "")


def archive(table: LakehouseTable) -> LakehouseTable:
    """The table with all commits archived but the newest one or two."""
    table.archive({"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    return open_table(table.location)


@pytest.mark.parametrize("kind", KINDS)
def test_archived_commits_are_searched_as_far_as_their_files_are_kept(
    tmp_path: Path, kind: str
) -> None:
    table = made(tmp_path, kind, INDEXES[0])
    first = write(table, ("a", 1, "Oslo"))
    removal = str(table.delete(pa.table({"id": ["a"], "day": ["d1"]})).instant)
    back = write(table, ("a", 3, "Bergen"))
    if kind == "MERGE_ON_READ":
        table.compact()
    for at in range(4):
        write(table, ("b", at, "Rome"))
    table = archive(table)
    assert table.table.timeline().find(back) is None

    history = row_history(table.table, "a")

    assert [(version.instant, version.after is None) for version in history.versions] == [
        (back, False),
        (removal, True),
        (first, False),
    ]
    assert all(version.completed_at is not None for version in history.versions)
    assert history.cut_by == ""


def test_archived_commits_whose_files_were_cleaned_end_the_history(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[0])
    instants = [write(table, ("a", at, f"c{at}")) for at in range(6)]
    table.clean({"hoodie.clean.commits.retained": "1"})
    history = row_history(archive(table).table, "a")

    assert history.cut_by == "cleaned"
    assert [version.instant for version in history.versions] == instants[
        : -len(history.versions) - 1 : -1
    ]


def test_more_archived_commits_than_are_searched_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.read.row_history.ARCHIVED_MAX", 1)
    table = made(tmp_path, "COPY_ON_WRITE", INDEXES[0])
    first = write(table, ("a", 1, "Oslo"))
    for at in range(5):
        write(table, ("b", at, "Rome"))

    history = row_history(archive(table).table, "a")

    assert [(version.instant, version.completed_at) for version in history.versions] == [
        (first, None)
    ]
    assert history.cut_by == "archived"


def delete_by_key(table: LakehouseTable) -> object:
    return table.delete(pa.table({"id": ["a"], "day": ["d1"]}))


def delete_by_predicate(table: LakehouseTable) -> object:
    return table.delete(predicate="city = 'Oslo'")


def delete_the_partition(table: LakehouseTable) -> object:
    return table.delete_partition(["d1"])


def overwrite_the_partition(table: LakehouseTable) -> object:
    rows = pa.Table.from_pylist([{"id": "c", "ts": 9, "city": "Kiel", "day": "d1"}], schema=SCHEMA)
    return table.write(rows, operation="insert_overwrite")


def overwrite_the_table(table: LakehouseTable) -> object:
    rows = pa.Table.from_pylist([{"id": "c", "ts": 9, "city": "Kiel", "day": "d2"}], schema=SCHEMA)
    return table.write(rows, operation="insert_overwrite_table")


def write_a_tombstone(table: LakehouseTable) -> object:
    row = {"id": "a", "ts": 9, "city": None, "day": "d1", "_hoodie_is_deleted": True}
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    return table.write(pa.Table.from_pylist([row], schema=schema))


DELETES = {
    "key": delete_by_key,
    "predicate": delete_by_predicate,
    "partition": delete_the_partition,
    "overwrite": overwrite_the_partition,
    "overwrite of the table": overwrite_the_table,
    "tombstone": write_a_tombstone,
}


@pytest.mark.parametrize("delete", DELETES.values(), ids=DELETES)
@pytest.mark.parametrize("options", INDEXES, ids=["bucket", "bloom"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_delete_is_a_version_with_the_row_before_it(
    tmp_path: Path, kind: str, options: dict[str, str], delete: Any
) -> None:
    table = made(tmp_path, kind, options)
    first = write(table, ("a", 1, "Oslo"), ("b", 1, "Rome"))
    removal = str(delete(table).instant)
    write(table, ("d", 9, "Turku"))

    history = row_history(table.table, "a")

    assert summary(history) == [(removal, "Oslo", None, ()), (first, None, "Oslo", ())]
    assert history.cut_by == ""
