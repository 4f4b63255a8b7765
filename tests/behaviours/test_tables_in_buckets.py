"""A table in a bucket lives the life of a table in a directory, and hudi-rs reads it there."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.support.golden import ARCHIVES, MISSING, golden_archive
from bench.support.s3_server import hudi_rs_options, shared_server
from tests.behaviours.bucket_tables import (
    COW,
    MOR,
    NON_BLOCKING,
    OPTIMISTIC,
    SCHEMA,
    MakeTable,
    assert_agreed,
    cities,
)
from tests.support.old_tables import files_of
from tests.support.referee import referee_table
from workers import open_table
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput, LakehouseError, TableExists
from workers.lakehouse import LakehouseTable
from workers.options.write_keys import DEAD_LETTER_KEY
from workers.recovery.plan import RollbackPlan
from workers.sql import run_sql
from workers.sql.relations import Tables
from workers.storage.opener import open_storage
from workers.write.dead_letters import ERROR_COLUMN

MERGE = (
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET city = s.city "
    "WHEN NOT MATCHED THEN INSERT *"
)


def rows(ts: int, *keys: str) -> pa.Table:
    listed = [{"id": key, "ts": ts, "city": f"{key}{ts}", "day": key[0]} for key in keys]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", [pytest.param(COW, marks=pytest.mark.slow), MOR])
def test_a_table_lives_in_a_bucket(make: MakeTable, table_type: str) -> None:
    table = make(table_type)
    first = table.write(rows(1, "a1", "a2", "b1"), options=OPTIMISTIC)
    second = table.write(rows(2, "a1", "c1"), options=OPTIMISTIC)
    assert isinstance(first, Committed)
    assert isinstance(second, Committed)

    assert cities(table.read()) == ["a12", "a21", "b11", "c12"]
    assert cities(table.read(as_of=first.completed_at)) == ["a11", "a21", "b11"]
    assert cities(table.read(since=first.completed_at)) == ["a12", "c12"]
    assert_agreed(table)
    with pytest.raises(TableExists):
        make(table_type)

    table.delete(rows(3, "b1").select(["id", "day"]), options=OPTIMISTIC)
    assert cities(table.read()) == ["a12", "a21", "c12"]
    third = table.write(rows(4, "c1", "c2"), options=OPTIMISTIC)
    assert isinstance(third, Committed)
    plan = table.rollback(third.instant)
    assert isinstance(plan, RollbackPlan)
    table.rollback(
        third.instant, dry_run=False, expected_plan_hash=plan.plan_hash, reason="wrong rows"
    )
    assert cities(table.read()) == ["a12", "a21", "c12"]
    assert_agreed(table)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.slow
def test_services_run_on_a_bucket(make: MakeTable, table_type: str) -> None:
    table = make(table_type)
    for ts in range(1, 6):
        table.write(rows(ts, "a1", "b1"), options=OPTIMISTIC)
        if table_type == MOR and ts % 2 == 0:
            table.compact()
    newest = table.timeline()[-1]
    table.savepoint(newest.requested_at)
    table.clean({"hoodie.clean.commits.retained": "1"})
    table.cluster(["city"])
    table.archive({"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})

    assert cities(table.read()) == ["a15", "b15"]
    assert_agreed(table)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_of_two_writers_of_a_file_group_one_loses(make: MakeTable, table_type: str) -> None:
    table = make(table_type)
    table.write(rows(1, "a1"), options=OPTIMISTIC)
    outcome: list[object] = []

    class Rival:
        """Commits while the first writer reads its rows."""

        def __call__(self) -> pa.Table:
            other = open_table(table.location)
            outcome.append(other.write(rows(2, "a1"), options=OPTIMISTIC))
            return rows(3, "a1")

    lost = write_late(table, Rival())

    assert isinstance(outcome[0], Committed)
    assert isinstance(lost, Conflicted)
    assert cities(table.read()) == ["a12"]
    assert_agreed(table)


def write_late(table: LakehouseTable, find: Callable[[], pa.Table]) -> object:
    from workers.options.write_options import write_options
    from workers.write.local import write_rows_from
    from workers.write.request import WriteRequest

    options = write_options(OPTIMISTIC)
    return write_rows_from(table.table, SCHEMA, WriteRequest("upsert"), options, lambda _: find())


def test_a_lock_file_in_a_bucket_is_refused_before_anything_is_written(make: MakeTable) -> None:
    table = make(COW)
    before = [file.path for file in table.table.storage.list_tree("")]

    with pytest.raises(InvalidInput, match="provider storage"):
        table.write(
            rows(1, "a1"), options=OPTIMISTIC | {"hoodie.write.lock.provider": "filesystem"}
        )

    assert [file.path for file in table.table.storage.list_tree("")] == before


def test_streams_append_side_by_side_in_a_bucket(make: MakeTable) -> None:
    table = make(MOR)
    for ts in (1, 2):
        table.write(rows(ts, "a1", "b1"), options=NON_BLOCKING)

    assert cities(table.read()) == ["a12", "b12"]
    assert_agreed(table)


def test_no_error_and_no_object_holds_credentials(make: MakeTable, location: str) -> None:
    table = make(COW)
    secret = shared_server().environment["AWS_SECRET_ACCESS_KEY"]
    expired = {"kind": "expired", "times": 1}
    with shared_server().failing(expired), pytest.raises(LakehouseError) as failed:
        table.write(rows(1, "a1"), options=OPTIMISTIC)

    assert secret not in f"{failed.value!r}{failed.value}{failed.value.__cause__!r}"
    assert table.location == location
    table.write(rows(1, "a1"), options=OPTIMISTIC)
    objects = [table.table.storage.read(one.path) for one in table.table.storage.list_tree("")]
    assert not any(secret.encode() in content for content in objects)


@pytest.mark.parametrize("table_type", [COW, pytest.param(MOR, marks=pytest.mark.slow)])
def test_statements_and_windows_of_changes(make: MakeTable, table_type: str) -> None:
    table = make(table_type)
    first = table.write(rows(1, "a1", "b1"), options=OPTIMISTIC)
    assert isinstance(first, Committed)
    for statement in (
        "INSERT INTO t VALUES ('c1', 2, 'Oslo', 'c')",
        "UPDATE t SET city = upper(city), ts = 3 WHERE id = 'a1'",
        "DELETE FROM t WHERE id = 'b1'",
        MERGE,
    ):
        tables: Tables = {"t": table.location, "s": rows(4, "c1", "d1")}
        assert isinstance(run_sql(statement, tables=tables, options=OPTIMISTIC), Committed)

    selected = run_sql("SELECT city FROM t WHERE day <> 'x'", tables={"t": table.location})
    changes = table.read(query="cdc", since=first.completed_at).to_pylist()
    assert cities(selected) == cities(table.read()) == ["A11", "c14", "d14"]
    assert sorted((row["op"], (row["after"] or row["before"])["id"]) for row in changes) == [
        ("d", "b1"),
        ("i", "c1"),
        ("i", "d1"),
        ("u", "a1"),
        ("u", "c1"),
    ]
    assert_agreed(table)


def test_rows_that_do_not_fit_go_beside_a_table(make: MakeTable, location: str) -> None:
    table = make(COW)
    place = f"{location}-dead-letters"
    batch = pa.concat_tables([rows(1, "a1"), rows(1, "b1").set_column(0, "id", [[""]])])
    options = OPTIMISTIC | {DEAD_LETTER_KEY: place}

    outcome = table.write(batch, options=options)

    assert isinstance(outcome, Committed)
    assert cities(table.read()) == ["a11"]
    [file] = open_storage(place).list_files("")
    with open_storage(place).open_data(file.name) as stream:
        [row] = pq.read_table(stream).to_pylist()
    assert "key" in row[ERROR_COLUMN]
    with pytest.raises(InvalidInput, match="outside the table"):
        table.write(batch, options=options | {DEAD_LETTER_KEY: f"{location}/inside"})


@pytest.mark.skipif(not ARCHIVES, reason=MISSING)
@pytest.mark.parametrize("name", ["mor-avro-v6_trips", "cow-v8_complexkeygen"])
def test_table_of_an_old_version_is_upgraded(location: str, name: str) -> None:
    storage = open_storage(location)
    for path, (content, _) in files_of(golden_archive(name)).items():
        storage.put(path, content)
    table = open_table(location)
    before = table.read()

    table.upgrade()

    assert table.table.config.version == 9
    assert open_table(location).read().equals(before)
    assert referee_table(location, hudi_rs_options()).num_rows == before.num_rows
    assert not [file.path for file in storage.list_files(".hoodie") if "commit" in file.name]
