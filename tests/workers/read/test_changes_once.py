"""Each change is delivered once: across clustering, commits that publish rows again, and moves of
rows between partitions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from tests.support.change_reader import Pages, key_of
from tests.support.keyed_streams import click, made, shown
from tests.support.overtaking import SCHEMA, WIDER, row
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables, schema_of
from tests.support.table_services import run
from workers.clock import InstantTime
from workers.concurrency.outcome import Committed
from workers.errors import SnapshotExpired
from workers.lakehouse import open_table
from workers.read.incremental import plan_incremental
from workers.read.request import EARLIEST
from workers.read.row_history import row_history

pytestmark = pytest.mark.sampled(every=2)

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
INDEXES = ["BUCKET", "SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"]
MOVING = ["GLOBAL_SIMPLE", "GLOBAL_BLOOM", "groups"]
ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}
DIRECT = {"hoodie.write.markers.type": "direct", "hoodie.parquet.small.file.limit": "0"}
PARTIAL = {
    "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}
EVERY_LOG = {"hoodie.compact.inline.max.delta.commits": "1"}
KEEP_ONE = {"policy": "KEEP_LATEST_FILE_VERSIONS", "versions": "1", "retention_minutes": "0"}
ARCHIVE_ALL = {"min_commits": "1", "max_commits": "1", "uncompacted_logs": "true"}
MEASURED = schema_of(id=pa.string(), x=pa.float64(), xs=pa.list_(pa.float64()))
every_type = pytest.mark.parametrize("table_type", KINDS)


def reading(key: str, place: str, value: int) -> Row:
    return {"id": key, "place": place, "ts": value, "value": value, "note": "n"}


def write(table: ScenarioTable, *rows: Row, operation: str = "upsert") -> InstantTime:
    outcome = table.lakehouse.write(table.batch(rows), operation, options=DIRECT)
    assert isinstance(outcome, Committed), outcome
    return outcome.completed_at


def read(table: ScenarioTable, **request: Any) -> list[Row]:
    rows: list[Row] = open_table(table.location).read(**request).to_pylist()
    return rows


def ops(table: ScenarioTable, **request: Any) -> list[tuple[str, str]]:
    events = read(table, query="cdc", **request)
    return [(event["op"], key_of(event)) for event in events]


def compact(table: ScenarioTable) -> None:
    if table.table.config.is_merge_on_read:
        run(table.table, "compaction", **EVERY_LOG)


def cluster(table: ScenarioTable) -> None:
    table.lakehouse.cluster(["value"], options=DIRECT)


SERVICES = {
    "clustered": (cluster,),
    "compacted and clustered": (compact, cluster),
    "clustered and compacted": (cluster, compact),
    "clustered twice": (cluster, cluster),
}


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("services", SERVICES.values(), ids=SERVICES)
@pytest.mark.parametrize("rows", ["partial", "whole"])
@pytest.mark.parametrize("index", INDEXES)
@every_type
def test_clustering_brings_no_row_into_a_window(
    tables: ScenarioTables, table_type: str, index: str, rows: str, services: Any
) -> None:
    options = {"hoodie.index.type": index} | (ONE_BUCKET if index == "BUCKET" else {})
    table = tables(
        table_type=table_type,
        schema=READINGS,
        partition_by=["place"],
        options=options | (PARTIAL if rows == "partial" else {}),
    )
    pages = Pages(table)
    write(table, *(reading(key, "p", at) for at, key in enumerate("cab")))
    write(table, reading("a", "p", 9), reading("d", "q", 1))
    for number, service in enumerate(services):
        pages.note()
        write(table, {"id": "b", "place": "p", "ts": 1, "value": 20 + number, "note": "n"})
        pages.note()
        service(table)
    pages.note()
    write(table, reading("n", "p", 5))
    pages.note()

    times = pages.times
    for since, until in [*pairwise(times), (times[1], times[-1]), (times[2], times[-2])]:
        pages.check(since, until)


@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE"])
@every_type
def test_window_behind_a_clustering_that_is_archived_has_the_rows_that_changed(
    tables: ScenarioTables, table_type: str, index: str
) -> None:
    options = {"hoodie.index.type": index} | (ONE_BUCKET if index == "BUCKET" else {})
    table = tables(table_type=table_type, schema=READINGS, options=options | PARTIAL)
    before = write(table, *(reading(key, "p", at) for at, key in enumerate("cab")))
    cluster(table)
    clustered = table.instants()[-1]
    last = write(table, reading("a", "p", 9))
    for at in range(2):
        compact(table)
        run(table.table, "clean", **KEEP_ONE)
        last = write(table, reading("n", "p", at))
    run(table.table, "archive", **ARCHIVE_ALL)

    assert clustered.requested_at not in [one.requested_at for one in table.instants()]
    for since in (before, clustered.completed_at):
        with pytest.raises(SnapshotExpired):
            read(table, since=since)
    assert read(table, since=last) == []
    write(table, reading("b", "p", 3))
    assert [one["id"] for one in read(table, since=last)] == ["b"]
    table.excuse_referee("hudi-rs does not see logs of archived commits")


def test_window_in_which_nothing_was_replaced_reads_each_file_group_alone(
    tables: ScenarioTables,
) -> None:
    table = tables(schema=READINGS, options={"hoodie.index.type": "SIMPLE"} | PARTIAL)
    for key in "ab":
        write(table, reading(key, "p", 1))

    plan = plan_incremental(table.table, since=EARLIEST)

    assert [(len(one.after), len(one.before)) for one in plan.slices] == [(1, 0), (1, 0)]


def overtaken(
    tables: ScenarioTables, late: list[Row], rival: list[Row], schema: pa.Schema = SCHEMA
) -> tuple[ScenarioTable, Committed, Committed]:
    """A table in which `late` began before `rival` and completed after it."""
    table = tables(table_type="MERGE_ON_READ", schema=SCHEMA, ordering=["ts"], options=ONE_BUCKET)
    write(table, row(1, 1, "first"), row(2, 1, "first"))
    slow = table.writer("late", mode="non-blocking").upsert(*late, schema=schema)
    quick = table.writer("rival", mode="non-blocking").upsert(*rival)
    won, lost = quick.wins(), slow.wins()
    assert lost.republished_keys == 1
    return table, won, lost


@pytest.mark.parametrize("is_compacted", [False, True], ids=["in logs", "compacted"])
def test_row_that_is_published_again_is_delivered_with_the_commit_that_wrote_it(
    tables: ScenarioTables, is_compacted: bool
) -> None:
    table, rival, late = overtaken(
        tables, [row(1, 5, "late"), row(2, 5, "late")], [row(1, 5, "rival")]
    )
    if is_compacted:
        compact(table)

    assert read(table, since=late.completed_at) == []
    assert ops(table, since=late.completed_at) == []
    both = {"since": rival.completed_at, "until": late.completed_at}
    for window in (both, {"since": rival.completed_at}):
        assert sorted(one["city"] for one in read(table, **window)) == ["late", "late"]
        assert sorted(ops(table, **window)) == [("u", "1"), ("u", "2")]
    versions = row_history(table.table, "1").versions
    assert [one.instant for one in versions][:2] == [late.instant, rival.instant]
    assert versions[0].changed == ("city", "note")


@pytest.mark.parametrize("is_compacted", [False, True], ids=["in logs", "compacted"])
def test_row_of_a_rival_that_is_published_again_is_delivered_with_the_rival(
    tables: ScenarioTables, is_compacted: bool
) -> None:
    table, rival, late = overtaken(
        tables,
        [{**row(1, 4, "late"), "weight": 7}],
        [row(1, 5, "rival")],
        WIDER,
    )
    if is_compacted:
        compact(table)

    for since in (rival.completed_at, late.completed_at):
        assert read(table, since=since) == []
        assert ops(table, since=since) == []
    (stands,) = (one for one in table.rows("id", "city", "weight") if one["id"] == 1)
    assert stands == {"id": 1, "city": "rival", "weight": None}


@pytest.fixture(params=MOVING)
def moving(
    request: pytest.FixtureRequest, tables: ScenarioTables, table_type: str
) -> ScenarioTable:
    if request.param == "groups":
        return made(tables, table_type, "move")
    options = {"hoodie.index.type": request.param}
    return tables(table_type=table_type, schema=READINGS, partition_by=["place"], options=options)


def placed(table: ScenarioTable, key: str, place: str, value: int) -> Row:
    if table.table.config.groups is None:
        return reading(key, place, value)
    return (shown if value % 2 else click)(key, place, value, value)


def delete(table: ScenarioTable, key: str, place: str) -> None:
    (column,) = table.table.config.partition_by
    table.lakehouse.delete(pa.table({"id": [key], column: [place]}), options=DIRECT)


@pytest.mark.sampled(every=2)
@every_type
def test_row_that_moves_is_one_update_with_both_images(moving: ScenarioTable) -> None:
    pages = Pages(moving)

    def step(*rows: Row, operation: str = "upsert") -> list[tuple[str, str]]:
        since = pages.times[-1]
        write(moving, *rows, operation=operation)
        pages.note()
        pages.check(since, pages.times[-1])
        return sorted(ops(moving, since=since))

    def at(key: str, place: str, value: int) -> Row:
        return placed(moving, key, place, value)

    step(at("k", "m", 1), at("l", "m", 1), at("m", "t", 1), at("gone", "t", 1))
    moves = [step(at("k", place, 3)) for place in ("t", "m", "a new one")]
    with_others = step(at("k", "t", 5), at("l", "t", 5), at("m", "m", 5), at("new", "m", 5))
    delete(moving, "k", "t")
    pages.note()
    step(at("k", "m", 7))
    overwritten = step(
        at("k", "t", 8), at("l", "t", 8), at("n", "m", 8), operation="insert_overwrite_table"
    )

    assert moves == [[("u", "k")]] * 3
    assert with_others == [("i", "new"), ("u", "k"), ("u", "l"), ("u", "m")]
    assert overwritten == [
        ("d", "gone"), ("d", "m"), ("d", "new"), ("i", "n"), ("u", "k"), ("u", "l"),
    ]  # fmt: skip
    pages.check(pages.times[0], pages.times[-1])


@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE"])
@every_type
def test_rows_of_one_key_in_two_partitions_stay_two(
    tables: ScenarioTables, table_type: str, index: str
) -> None:
    options = {"hoodie.index.type": index} | (ONE_BUCKET if index == "BUCKET" else {})
    table = tables(table_type=table_type, schema=READINGS, partition_by=["place"], options=options)
    write(table, reading("k", "p", 1), reading("k", "q", 1))
    since = write(table, reading("k", "q", 2), reading("k", "r", 2))
    table.lakehouse.delete_partition(["q"], options=DIRECT)
    write(table, reading("k", "p", 3), reading("k", "q", 3), operation="insert_overwrite_table")

    events = read(table, query="cdc", since=since)

    def places(event: Row) -> tuple[Any, ...]:
        images = event["before"], event["after"]
        return (event["op"], *(image and image["place"] for image in images))

    assert [places(one) for one in events] == [("d", "q", None), ("u", "p", "p"), ("u", "r", "q")]


@every_type
def test_values_that_are_written_again_are_no_change(
    tables: ScenarioTables, table_type: str
) -> None:
    table = tables(table_type=table_type, schema=MEASURED, options=ONE_BUCKET)
    unknown: Row = {"id": "a", "x": float("nan"), "xs": [float("nan"), 1.0]}
    rows = [unknown, {"id": "b", "x": None}]
    since = write(table, *rows)

    write(table, *rows, {"id": "c"})

    assert ops(table, since=since) == [("i", "c")]


@every_type
def test_row_with_nan_beside_one_that_changes_is_not_in_the_window(
    tables: ScenarioTables, table_type: str
) -> None:
    table = tables(table_type=table_type, schema=MEASURED, options=ONE_BUCKET | PARTIAL)
    since = write(
        table, {"id": "a", "x": float("nan"), "xs": [float("nan")]}, {"id": "b", "x": 1.0}
    )

    write(table, {"id": "b", "x": 2.0})

    assert [one["id"] for one in read(table, since=since)] == ["b"]
    assert ops(table, since=since) == [("u", "b")]
