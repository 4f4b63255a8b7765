"""A write reads a commit that is rolled back before the write commits: it loses and names that
commit, and tried again it writes what it would have written without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.services import run as run_service
from tests.scenarios.test_deletes_beside_inserts import OPTIMISTIC, RETRIES, Beside
from tests.support.keyed_streams import click, made, shown
from tests.support.scenario_table import MODES, READINGS, Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import At, WatchedStorage
from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import PlanChanged
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.schema.alter import RenameColumn
from workers.sql.run import run_sql
from workers.table_services.deletes.rows import Delete
from workers.table_services.service import ServiceRequest

TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
LOOKED_UP = ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM")
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
NON_BLOCKING = OPTIMISTIC | {"hoodie.write.concurrency.mode": MODES["non-blocking"]}
DROP = {"hoodie.datasource.insert.dup.policy": "drop"}
every_type = pytest.mark.parametrize("table_type", TYPES)
Write = Callable[[ScenarioTable, Mapping[str, str]], Any]


def sql(statement: str) -> Write:
    source = pa.table({"id": ["a"], "place": ["oslo"]})
    return lambda table, options: run_sql(
        statement, tables={"t": table.lakehouse, "s": source}, options=options
    )


def by_predicate(table: ScenarioTable, options: Mapping[str, str]) -> Any:
    return table.lakehouse.delete(predicate="value < 0", options=options)


STATEMENTS: dict[str, Write] = {
    "predicate": by_predicate,
    "DELETE": sql("DELETE FROM t WHERE value < 0"),
    "UPDATE": sql("UPDATE t SET value = value - 1 WHERE value < 0"),
    "MERGE": sql(
        "MERGE INTO t USING s ON t.id = s.id AND t.place = s.place "
        "WHEN MATCHED AND t.value < 0 THEN UPDATE SET value = t.value - 1"
    ),
}


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    return Beside(monkeypatch)


def row(key: str, value: int, place: str = "oslo") -> Row:
    return {"id": key, "place": place, "ts": 1, "value": value, "note": None}


def keys(*named: str) -> pa.Table:
    return pa.table({"id": list(named), "place": ["oslo"] * len(named)})


def filled(tables: ScenarioTables, table_type: str, index: str) -> ScenarioTable:
    """Rows `a` and `b` in oslo."""
    options = {"hoodie.index.type": index}
    if index == "BUCKET":
        options["hoodie.bucket.index.num.buckets"] = "1"
    table = tables(
        table_type=table_type,
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"],
        options=options,
        write_options=NEW_FILES,
    )
    table.writer("setup").upsert_and_commit(row("a", 5), row("b", 6))
    return table


def undo(table: ScenarioTable, instant: InstantTime) -> None:
    table.lakehouse.rollback(instant, dry_run=False, reason="it was wrong")


def written(table: ScenarioTable, write: Write) -> InstantTime:
    outcome = write(table, {"hoodie.write.markers.type": "direct"})
    assert isinstance(outcome, Committed), outcome
    return outcome.instant


def upserted(table: ScenarioTable, *rows: Row) -> InstantTime:
    return table.writer("undone").upsert_and_commit(*rows).instant


def deleted(table: ScenarioTable, *named: str) -> InstantTime:
    return written(table, lambda _, options: table.lakehouse.delete(keys(*named), options=options))


def inserting(*rows: Row, more: Mapping[str, str] | None = None) -> Write:
    return lambda table, options: table.lakehouse.write(
        table.batch(rows), operation="insert", options={**options, **(more or {})}
    )


def upserting(*rows: Row) -> Write:
    return lambda table, options: table.lakehouse.write(table.batch(rows), options=options)


def deleting(*named: str) -> Write:
    return lambda table, options: table.lakehouse.delete(keys(*named), options=options)


def values(table: ScenarioTable) -> dict[tuple[str, str], int]:
    """Raises AssertionError for a key that stands twice."""
    rows = table.rows()
    by_key = {(one["id"], one["place"]): one["value"] for one in rows}
    assert len(by_key) == len(rows), rows
    return by_key


def assert_loses_and_is_tried_again(
    table: ScenarioTable,
    beside: Beside,
    write: Write,
    undone: InstantTime,
    then: Callable[[], Any] = lambda: None,
) -> None:
    def rival() -> None:
        undo(table, undone)
        then()

    beside(rival)
    outcome = write(table, OPTIMISTIC | NEW_FILES | RETRIES)
    assert isinstance(outcome, Committed), outcome
    assert outcome.attempts == 2


@pytest.mark.sampled(every=2)
@every_type
@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE"])
@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_statement_does_not_act_on_a_value_that_was_rolled_back(
    tables: ScenarioTables, beside: Beside, kind: str, index: str, table_type: str
) -> None:
    table = filled(tables, table_type, index)
    undone = upserted(table, row("a", -1))

    assert_loses_and_is_tried_again(table, beside, STATEMENTS[kind], undone)

    assert values(table) == {("a", "oslo"): 5, ("b", "oslo"): 6}


def test_the_conflict_names_the_commit_and_the_file_group(
    tables: ScenarioTables, beside: Beside
) -> None:
    table = filled(tables, "MERGE_ON_READ", "BUCKET")
    undone = upserted(table, row("a", -1))
    beside(lambda: undo(table, undone))

    outcome = by_predicate(table, OPTIMISTIC)

    assert isinstance(outcome, Conflicted)
    conflict = outcome.conflict
    assert (conflict.rival, conflict.rule, conflict.writer) == (undone, "taken_back", "slow")
    assert conflict.message == (
        f"commit {undone}, which this write read, was rolled back meanwhile; write again"
    )
    assert [partition for partition, _ in conflict.file_groups] == ["oslo"]
    assert table.orphan_files() == table.leftovers() == []


def test_a_row_that_did_not_match_for_a_value_that_was_rolled_back_is_deleted(
    tables: ScenarioTables, beside: Beside
) -> None:
    table = filled(tables, "COPY_ON_WRITE", "SIMPLE")
    upserted(table, row("a", -1))
    undone = upserted(table, row("a", 1))

    assert_loses_and_is_tried_again(table, beside, by_predicate, undone)

    assert values(table) == {("b", "oslo"): 6}


@pytest.mark.sampled(every=2)
@every_type
@pytest.mark.parametrize("index", LOOKED_UP)
def test_a_key_whose_insert_was_rolled_back_stands_once(
    tables: ScenarioTables, beside: Beside, index: str, table_type: str
) -> None:
    table = filled(tables, table_type, index)
    undone = upserted(table, row("n", 1))
    again = table.writer("fast", options=NEW_FILES)

    assert_loses_and_is_tried_again(
        table,
        beside,
        upserting(row("n", 9)),
        undone,
        lambda: again.upsert_and_commit(row("n", 7)),
    )

    assert values(table)["n", "oslo"] == 9


@pytest.mark.sampled(every=2)
@every_type
@pytest.mark.parametrize("index", LOOKED_UP)
def test_a_key_whose_delete_was_rolled_back_stands_once(
    tables: ScenarioTables, beside: Beside, index: str, table_type: str
) -> None:
    table = filled(tables, table_type, index)
    undone = deleted(table, "a")

    assert_loses_and_is_tried_again(table, beside, upserting(row("a", 9)), undone)

    assert values(table) == {("a", "oslo"): 9, ("b", "oslo"): 6}


@pytest.mark.sampled(every=2)
@every_type
@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
@pytest.mark.parametrize("place", ["oslo", "rome"])
def test_a_key_whose_move_was_rolled_back_stands_in_one_partition(
    tables: ScenarioTables, beside: Beside, place: str, index: str, table_type: str
) -> None:
    table = filled(tables, table_type, index)
    undone = upserted(table, row("a", 1, "rome"))

    assert_loses_and_is_tried_again(table, beside, upserting(row("a", 9, place)), undone)

    assert values(table) == {("a", place): 9, ("b", "oslo"): 6}


@every_type
@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE"])
def test_a_row_is_not_dropped_for_a_key_that_was_rolled_back(
    tables: ScenarioTables, beside: Beside, index: str, table_type: str
) -> None:
    table = filled(tables, table_type, index)
    undone = upserted(table, row("n", 1))
    write = inserting(row("n", 9), row("m", 9), more=DROP)

    assert_loses_and_is_tried_again(table, beside, write, undone)

    assert {key for key, _ in values(table)} == {"a", "b", "m", "n"}
    assert values(table)["n", "oslo"] == 9


@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE", "GLOBAL_SIMPLE"])
def test_a_delete_takes_a_row_whose_earlier_delete_was_rolled_back(
    tables: ScenarioTables, beside: Beside, index: str
) -> None:
    table = filled(tables, "COPY_ON_WRITE", index)
    undone = deleted(table, "a")

    assert_loses_and_is_tried_again(table, beside, deleting("a"), undone)

    assert values(table) == {("b", "oslo"): 6}


@every_type
def test_a_rename_writes_no_row_back_that_was_rolled_back(
    tables: ScenarioTables, beside: Beside, table_type: str
) -> None:
    table = filled(tables, table_type, "BUCKET")
    undone = upserted(table, row("n", 1))
    beside(lambda: undo(table, undone))

    outcome = table.lakehouse.alter(RenameColumn("note", "remark"), options=OPTIMISTIC)

    assert isinstance(outcome, Conflicted), outcome
    assert outcome.conflict.rival == undone
    assert set(values(table)) == {("a", "oslo"), ("b", "oslo")}


@pytest.mark.parametrize(
    "parameters", [{"predicate": "value < 0"}, {"keys": '[{"id": "a", "place": "oslo"}]'}]
)
def test_the_delete_service_loses_to_the_rollback_of_what_it_read(
    tables: ScenarioTables, beside: Beside, parameters: dict[str, str]
) -> None:
    table = filled(tables, "MERGE_ON_READ", "BUCKET")
    undone = upserted(table, row("a", -1))
    beside(lambda: undo(table, undone))
    request = ServiceRequest("test", parameters=parameters)

    with pytest.raises(PlanChanged, match="look at the new plan"):
        Delete().run(table.table, request, write_options(OPTIMISTIC))

    assert values(table) == {("a", "oslo"): 5, ("b", "oslo"): 6}


def test_a_non_blocking_delete_by_predicate_loses_to_the_rollback_of_what_it_read(
    tables: ScenarioTables, beside: Beside
) -> None:
    table = filled(tables, "MERGE_ON_READ", "BUCKET")
    undone = upserted(table, row("a", -1))
    beside(lambda: undo(table, undone))

    outcome = by_predicate(table, NON_BLOCKING)

    assert isinstance(outcome, Conflicted), outcome
    assert values(table) == {("a", "oslo"): 5, ("b", "oslo"): 6}


@every_type
def test_a_row_of_column_groups_whose_delete_was_rolled_back_stands_in_one_partition(
    tables: ScenarioTables, beside: Beside, table_type: str
) -> None:
    table = made(tables, table_type, "move")
    table.writer("setup").upsert_and_commit(shown("k", "mon", 1), click("l", "mon", 1))
    named = pa.table({"id": ["k"], "day": ["mon"]})
    undone = written(table, lambda _, options: table.lakehouse.delete(named, options=options))

    assert_loses_and_is_tried_again(table, beside, upserting(shown("k", "tue", 2)), undone)

    assert [(one["id"], one["day"]) for one in table.rows()] == [("k", "tue"), ("l", "mon")]


@every_type
def test_a_write_loses_although_the_rollback_of_what_it_read_pauses_before_its_first_effect(
    tables: ScenarioTables, table_type: str
) -> None:
    table = filled(tables, table_type, "SIMPLE")
    undone = upserted(table, row("n", 1))
    writer = table.writer("slow").upsert(row("n", 9))
    lost: list[Conflict] = []
    pause = At("delete", f"/{undone}_", lambda: lost.append(writer.loses()))
    storage = WatchedStorage(table.location, before=pause)

    open_table(table.location, ports=table.ports(), storage=storage).rollback(
        undone, dry_run=False, reason="it was wrong"
    )

    assert [one.rival for one in lost] == [undone]
    assert values(table) == {("a", "oslo"): 5, ("b", "oslo"): 6}


@pytest.mark.parametrize("mode", ["single", "optimistic", "non-blocking"])
def test_an_upsert_that_reads_nothing_stands_beside_a_rollback(
    tables: ScenarioTables, mode: str
) -> None:
    table = filled(tables, "MERGE_ON_READ", "BUCKET")
    undone = upserted(table, row("a", -1), row("n", 1, "rome"))
    writer = table.writer("slow", mode=mode).upsert(row("a", 9), row("n", 9, "rome"))

    undo(table, undone)

    writer.wins()
    assert values(table) == {("a", "oslo"): 9, ("b", "oslo"): 6, ("n", "rome"): 9}


@every_type
@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE", "BLOOM"])
def test_a_write_to_another_partition_stands_beside_a_rollback(
    tables: ScenarioTables, index: str, table_type: str
) -> None:
    table = filled(tables, table_type, index)
    undone = upserted(table, row("n", 1, "rome"))
    writer = table.writer("slow").upsert(row("a", 9), row("m", 1))

    undo(table, undone)

    writer.wins()
    assert values(table) == {("a", "oslo"): 9, ("b", "oslo"): 6, ("m", "oslo"): 1}


def test_an_archived_commit_is_not_taken_for_a_rolled_back_one(
    tables: ScenarioTables, beside: Beside
) -> None:
    table = filled(tables, "MERGE_ON_READ", "BUCKET")
    for number in range(4):
        upserted(table, row("a", -number))
    before = len(table.instants())
    limits = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    beside(lambda: run_service(table, "archive", limits))

    outcome = by_predicate(table, OPTIMISTIC)

    assert isinstance(outcome, Committed), outcome
    assert len(table.instants()) < before
    assert values(table) == {("b", "oslo"): 6}


def test_a_partial_row_is_committed_though_its_file_group_was_rolled_back(
    tables: ScenarioTables, beside: Beside
) -> None:
    table = tables(
        table_type="MERGE_ON_READ",
        schema=READINGS,
        ordering=["ts"],
        options={
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        },
    )
    undone = table.writer("undone").upsert_and_commit(row("a", 5))

    beside(lambda: undo(table, undone.instant))
    outcome = upserting({**row("b", 6), "note": None})(table, NON_BLOCKING)

    assert isinstance(outcome, Committed), outcome
    assert table.rows() == [row("b", 6)]
