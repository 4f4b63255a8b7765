"""Tables whose index is global: a key stands once in the whole table, and a row that comes with
another partition moves there or stays, as the table's options say.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.behaviours.setups import reading
from tests.scenarios.services import run
from tests.support.scenario_table import (
    READINGS,
    Row,
    ScenarioTable,
    ScenarioTables,
    schema_of,
)
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.files.meta_columns import PARTITION_PATH, RECORD_KEY
from workers.lakehouse import open_table
from workers.merge.mergers import register_merger
from workers.options.index_kind import IndexKind
from workers.read.snapshot import read_snapshot

pytestmark = pytest.mark.sampled(every=2)

KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
GLOBALS = tuple(one.value for one in IndexKind if one.is_global)
ALONE = {"hoodie.write.markers.type": "direct"}
Place = tuple[str, Any]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_index = pytest.mark.parametrize("index", GLOBALS)


@pytest.fixture
def made(tables: ScenarioTables) -> Any:
    def make(
        kind: str, index: str = "GLOBAL_SIMPLE", moves: str = "true", **options: str
    ) -> ScenarioTable:
        chosen = {"hoodie.index.type": index, IndexKind(index).moves_key: moves}
        return tables(
            table_type=kind,
            schema=READINGS,
            ordering=["ts"],
            partition_by=["place"],
            options=chosen | options,
        )

    return make


def write(table: ScenarioTable, *rows: Row, operation: str = "upsert", **options: str) -> Committed:
    outcome = table.lakehouse.write(table.batch(rows), operation=operation, options=ALONE | options)
    assert isinstance(outcome, Committed)
    return outcome


def places(table: ScenarioTable) -> dict[str, Place]:
    """Partition and value by key, each of which is there once."""
    rows = read_snapshot(open_table(table.location).table, with_meta_columns=True).to_pylist()
    place_of = {str(row[RECORD_KEY]): (row[PARTITION_PATH], row["value"]) for row in rows}
    assert len(place_of) == len(rows)
    assert all(row["place"] == row[PARTITION_PATH] for row in rows)
    return place_of


STANDING = [reading(key, 5, 1, "oslo") for key in "abcdef"]


@every_kind
@every_index
def test_a_row_moves_with_its_newer_partition(made: Any, kind: str, index: str) -> None:
    table = made(kind, index)
    write(table, *STANDING)

    outcome = write(
        table,
        reading("a", 6, 2, "rome"),  # newer
        reading("b", 5, 3, "rome"),  # as old: the later one wins
        reading("c", 4, 4, "rome"),  # older: the stored one stays
        reading("d", 6, 5, "oslo"),
        reading("x", 1, 6, "rome"),
    )

    assert outcome.rows == 5, "one that moves counts once"
    assert places(table) == {
        "a": ("rome", 2),
        "b": ("rome", 3),
        "c": ("oslo", 1),
        "d": ("oslo", 5),
        "e": ("oslo", 1),
        "f": ("oslo", 1),
        "x": ("rome", 6),
    }


@every_kind
@pytest.mark.parametrize(
    ("ordering", "at"),
    [
        (pa.decimal128(10, 2), Decimal(1)),
        (pa.timestamp("ms", "UTC"), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        (pa.bool_(), True),
    ],
)
def test_a_row_moves_whatever_type_orders_the_table(
    tables: ScenarioTables, kind: str, ordering: pa.DataType, at: Any
) -> None:
    table = tables(
        table_type=kind,
        schema=pa.schema({"id": pa.string(), "place": pa.string(), "at": ordering}),
        ordering=["at"],
        partition_by=["place"],
        options={"hoodie.index.type": "GLOBAL_SIMPLE"},
    )
    write(table, *({"id": key, "place": "oslo", "at": at} for key in "ab"))

    write(table, {"id": "a", "place": "rome", "at": at})

    assert {row["id"]: row["place"] for row in table.rows()} == {"a": "rome", "b": "oslo"}


@every_kind
@every_index
def test_a_row_that_may_not_move_is_updated_where_it_stands(
    made: Any, kind: str, index: str
) -> None:
    table = made(kind, index, "false")
    write(table, *STANDING[:2])

    write(table, reading("a", 6, 2, "rome"), reading("b", 4, 3, "rome"), reading("x", 1, 4, "rome"))
    write(table, reading("x", 2, 5, "oslo"), reading("a", 7, 6, "lima"))

    assert places(table) == {"a": ("oslo", 6), "b": ("oslo", 1), "x": ("rome", 5)}


@every_kind
@pytest.mark.parametrize("moves", ["true", "false"])
def test_of_one_key_with_several_partitions_in_a_batch_the_winner_says_where(
    made: Any, kind: str, moves: str
) -> None:
    table = made(kind, moves=moves)

    write(table, reading("a", 2, 2, "rome"), reading("a", 3, 3, "oslo"), reading("a", 1, 1, "lima"))
    write(table, reading("a", 5, 5, "rome"), reading("a", 4, 4, "lima"))

    assert places(table) == {"a": ("rome" if moves == "true" else "oslo", 5)}


@every_kind
def test_rows_move_to_and_fro_past_compaction_and_clustering(made: Any, kind: str) -> None:
    table = made(kind)
    for turn in range(6):
        place = ("oslo", "rome", "lima")[turn % 3]
        write(
            table, *(reading(key, turn, turn, place) for key in "abc"), reading("z", 9, 9, "oslo")
        )
        if kind == "MERGE_ON_READ" and turn % 2:
            run(table, "compaction")
        if turn == 3:
            run(table, "clustering", {"hoodie.clustering.plan.strategy.sort.columns": "value"})

    assert places(table) == {**dict.fromkeys("abc", ("lima", 5)), "z": ("oslo", 9)}


@every_kind
@every_index
@pytest.mark.parametrize("moves", ["true", "false"])
def test_a_delete_needs_the_key_alone(made: Any, kind: str, index: str, moves: str) -> None:
    table = made(kind, index, moves)
    write(table, *STANDING, reading("g", 5, 1, "rome"))
    keys = pa.table({"id": ["a", "g", "unknown"]})

    table.lakehouse.delete(keys, options=ALONE)
    table.lakehouse.delete(pa.table({"id": ["b"], "place": ["lima"]}), options=ALONE)
    table.lakehouse.delete(predicate="id = 'c'", options=ALONE)
    write(table, reading("d", 9, 0, "lima") | {"_hoodie_is_deleted": True})

    assert sorted(places(table)) == ["e", "f"]


@every_kind
def test_a_marked_row_that_is_older_deletes_nothing_elsewhere(made: Any, kind: str) -> None:
    table = made(kind)
    write(table, *STANDING[:1])

    write(table, reading("a", 4, 0, "rome") | {"_hoodie_is_deleted": True})

    assert places(table) == {"a": ("oslo", 1)}


@every_kind
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_inserts_of_keys_known_elsewhere(made: Any, kind: str, operation: str) -> None:
    table = made(kind)
    write(table, *STANDING[:3])
    policy = "hoodie.datasource.insert.dup.policy"

    rows = [reading("a", 9, 9, "rome"), reading("n", 9, 9, "rome")]
    write(table, *rows, operation=operation, **{policy: "drop"})
    with pytest.raises(InvalidInput, match="already"):
        write(table, reading("b", 9, 9, "rome"), operation=operation, **{policy: "fail"})
    write(table, reading("c", 9, 9, "rome"), operation=operation)

    assert places(table) == {
        "a": ("oslo", 1),
        "b": ("oslo", 1),
        "c": ("rome", 9),
        "n": ("rome", 9),
    }


@every_kind
def test_an_overwrite_that_would_double_a_key_is_refused(made: Any, kind: str) -> None:
    table = made(kind)
    write(table, *STANDING[:2], reading("g", 5, 1, "rome"))

    with pytest.raises(InvalidInput, match="not overwritten"):
        write(table, reading("a", 9, 9, "rome"), operation="insert_overwrite")
    with pytest.raises(InvalidInput, match="several partitions"):
        write(
            table,
            reading("h", 1, 2, "rome"),
            reading("h", 2, 2, "lima"),
            operation="insert_overwrite",
        )
    write(table, reading("h", 1, 2, "rome"), operation="insert_overwrite")
    assert places(table) == {"a": ("oslo", 1), "b": ("oslo", 1), "h": ("rome", 2)}

    write(table, reading("a", 1, 3, "lima"), operation="insert_overwrite_table")
    assert places(table) == {"a": ("lima", 3)}


@pytest.mark.parametrize("kind", ["MERGE_ON_READ"])
def test_a_row_that_moves_takes_along_what_the_batch_does_not_say(made: Any, kind: str) -> None:
    table = made(kind, **{"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"})
    write(table, *STANDING[:3])

    rows: Sequence[Row] = [
        {"id": "a", "place": "rome", "ts": 6},
        {"id": "b", "place": "rome", "ts": 6, "value": 7},
        {"id": "c", "place": "rome", "ts": 4, "value": 8},
    ]
    write(table, *rows)

    assert places(table) == {"a": ("rome", 1), "b": ("rome", 7), "c": ("oslo", 1)}
    notes = {row["id"]: row["note"] for row in table.rows("id", "note")}
    assert notes == {"a": "a@5", "b": "b@5", "c": "c@5"}


def test_a_registered_merger_sees_the_row_that_moves(tables: ScenarioTables) -> None:
    def summed(older: pa.Table, newer: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        total = pc.add(older.column("value"), newer.column("value"))
        at = newer.schema.get_field_index("value")
        return newer.set_column(at, newer.schema.field(at), total)

    register_merger("summed-for-global", summed)
    table = tables(
        table_type="COPY_ON_WRITE",
        schema=READINGS,
        partition_by=["place"],
        options={
            "hoodie.index.type": "GLOBAL_SIMPLE",
            "hoodie.record.merge.mode": "CUSTOM",
            "sluice.record.merger": "summed-for-global",
        },
    )
    table.excuse_referee("hudi-rs knows no merger of ours")
    write(table, reading("a", 1, 1, "oslo"))

    write(table, reading("a", 2, 10, "rome"), reading("b", 1, 5, "rome"))

    assert places(table) == {"a": ("rome", 11), "b": ("rome", 5)}


@every_kind
def test_a_move_and_an_update_of_the_old_file_group_conflict(made: Any, kind: str) -> None:
    table = made(kind)
    write(table, *STANDING)
    slow, fast = table.writer("slow"), table.writer("fast")
    slow.upsert(reading("a", 9, 9, "rome"))

    fast.upsert_and_commit(reading("b", 9, 9, "oslo"))

    assert slow.loses().rival == fast.last_instant
    assert places(table)["a"] == ("oslo", 1)


PARTIAL = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
BY_COMMIT = PARTIAL | {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}


@every_index
@pytest.mark.parametrize(
    ("kind", "options"),
    [("COPY_ON_WRITE", BY_COMMIT), ("MERGE_ON_READ", BY_COMMIT), ("MERGE_ON_READ", PARTIAL)],
)
def test_with_partial_updates_a_null_in_a_partition_column_moves_no_row(
    made: Any, kind: str, index: str, options: dict[str, str]
) -> None:
    table = made(kind, index, **options)
    write(table, reading("a", 1, 1, "oslo"), reading("b", 1, 1, "oslo"))

    silent = {**reading("a", 2, 2), "place": None}
    write(table, silent, reading("c", 2, 2, "rome"), {**silent, "id": "c", "value": 3})
    write(table, {**silent, "id": "d"})

    rows = {row["id"]: (row["place"], row["value"]) for row in table.rows()}
    assert rows == {"a": ("oslo", 2), "b": ("oslo", 1), "c": ("rome", 3), "d": (None, 2)}
    for place, ids in (("oslo", ["a", "b"]), ("rome", ["c"])):
        rows_there = table.lakehouse.read(where=f"place = '{place}'")
        assert sorted(rows_there["id"].to_pylist()) == ids
    assert table.lakehouse.read(where="place IS NULL")["id"].to_pylist() == ["d"]


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_partition_columns_a_null_keeps_one_and_a_value_moves_the_row(
    tables: ScenarioTables, kind: str
) -> None:
    text = pa.string()
    table = tables(
        table_type=kind,
        schema=schema_of(id=text, place=text, note=text, value=pa.int32()),
        partition_by=["place", "note"],
        options=BY_COMMIT | {"hoodie.index.type": "GLOBAL_SIMPLE"},
    )
    write(table, {"id": "a", "place": "oslo", "note": "x", "value": 1})

    write(table, {"id": "a", "place": None, "note": "y", "value": None})

    moved = {"id": "a", "place": "oslo", "note": "y", "value": 1}
    assert table.lakehouse.read(where="place = 'oslo' AND note = 'y'").to_pylist() == [moved]
    assert table.rows() == [moved]


@every_index
def test_with_partial_updates_an_older_row_moves_one_that_had_no_partition(
    made: Any, index: str
) -> None:
    table = made("MERGE_ON_READ", index, **PARTIAL)
    write(table, {**reading("a", 5, 1), "place": None}, reading("b", 5, 1, "oslo"))

    write(table, reading("a", 4, 2, "rome"), reading("b", 4, 2, "rome"))

    assert [row["place"] for row in table.rows()] == ["rome", "oslo"]
    for place, key in (("rome", "a"), ("oslo", "b")):
        assert table.lakehouse.read(where=f"place = '{place}'")["id"].to_pylist() == [key]
