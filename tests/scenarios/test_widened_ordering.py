"""An ordering column becomes wider: rows and deletes of both types compete by their values, and
where Apache Hudi could not compare them the column stays until the logs are compacted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.support.foreign_commits import foreign_commit
from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, schema_of
from tests.support.widened_ordering import (
    AVRO_BLOCKS,
    DELETED,
    FAR,
    NARROW,
    NARROW_ROWS,
    NEWER,
    STANDING,
    WIDE,
    WIDE_ROWS,
    fill,
    row,
    upsert,
)
from workers.concurrency.outcome import Committed
from workers.errors import BadRows, InvalidInput
from workers.lakehouse import open_table
from workers.schema.alter import SchemaChange, WidenColumn
from workers.schema.table_schema import TableSchema
from workers.sql.run import run_sql
from workers.timeline.instant import Action
from workers.timeline.metadata import SCHEMA_KEY

KINDS: list[tuple[str, Mapping[str, str]]] = [
    ("COPY_ON_WRITE", {}),
    ("MERGE_ON_READ", {}),
    ("MERGE_ON_READ", AVRO_BLOCKS),
]
IDS = ["copy-on-write", "merge-on-read", "avro logs"]
ROWS = [one for one in NARROW_ROWS if not one[DELETED]]
"""Without deletes whose ages are ints."""
REFUSED = r"from int to long and from float to double.*hudi-rs.*column=ts"
LEFT = [
    STANDING[0],
    {"id": 2, "ts": NEWER - 1, "city": "late"},
    *STANDING[1:],
]


def made(tables: ScenarioTables, table_type: str, schema: pa.Schema = NARROW) -> ScenarioTable:
    return tables(table_type=table_type, schema=schema, ordering=["ts"])


def type_of(table: ScenarioTable, name: str = "ts") -> pa.DataType:
    schema = open_table(table.location).schema()
    assert schema is not None
    column_type: pa.DataType = schema.field(name).type
    return column_type


def alter(table: ScenarioTable, *changes: SchemaChange) -> Committed:
    outcome = open_table(table.location).alter(*changes)
    assert isinstance(outcome, Committed), outcome
    return outcome


@pytest.mark.parametrize(("table_type", "options"), KINDS, ids=IDS)
def test_versions_and_deletes_of_both_types_compete_by_their_values(
    tables: ScenarioTables, table_type: str, options: Mapping[str, str]
) -> None:
    table = made(tables, table_type)
    fill(table)
    upsert(table, ROWS, NARROW, options=options).wins()

    upsert(table, WIDE_ROWS, WIDE, options=options).wins()

    assert type_of(table) == pa.int64()
    assert table.rows() == LEFT
    table.assert_referee_agrees()
    if table_type == "MERGE_ON_READ":
        open_table(table.location).compact()
        assert table.rows() == LEFT
    upsert(table, [row(4, FAR - 1, "older"), row(7, FAR, "newer")], WIDE, options=options).wins()
    upsert(table, [{"id": 6, "ts": NEWER, "city": "int again"}], NARROW, options=options).wins()
    cities = {one["id"]: one["city"] for one in table.rows()}
    assert (cities[4], cities[6], cities[7]) == ("far", "int again", "newer")


@pytest.mark.parametrize(("table_type", "options"), KINDS, ids=IDS)
def test_alter_widens_it_under_rows_that_stand(
    tables: ScenarioTables, table_type: str, options: Mapping[str, str]
) -> None:
    table = made(tables, table_type)
    fill(table)
    upsert(table, ROWS, NARROW, options=options).wins()

    alter(table, WidenColumn("ts", pa.int64()))

    table.assert_referee_agrees()
    upsert(table, WIDE_ROWS, WIDE, options=options).wins()
    assert table.rows() == LEFT


def test_float_becomes_double(tables: ScenarioTables) -> None:
    narrow = schema_of(id=pa.int64(), ts=pa.float32(), city=pa.string())
    wide = schema_of(id=pa.int64(), ts=pa.float64(), city=pa.string())
    table = made(tables, "MERGE_ON_READ", narrow)
    fill(table)
    upsert(table, ROWS, narrow).wins()

    upsert(table, WIDE_ROWS, wide).wins()

    assert type_of(table) == pa.float64()
    assert table.rows() == LEFT


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (pa.int32(), pa.float64(), 2.5),
        (pa.decimal128(9, 2), pa.decimal128(18, 4), Decimal("0.0001")),
    ],
    ids=str,
)
def test_alter_refuses_other_types_and_a_batch_of_them_is_converted_value_by_value(
    tables: ScenarioTables, table_type: str, old: pa.DataType, new: pa.DataType, lost: object
) -> None:
    table = made(tables, table_type, schema_of(id=pa.int64(), ts=old, city=pa.string()))
    fill(table)
    before, rows = table.listing(), table.rows()

    with pytest.raises(InvalidInput, match=REFUSED):
        open_table(table.location).alter(WidenColumn("ts", new))
    assert table.listing() == before
    wide = schema_of(id=pa.int64(), ts=new, city=pa.string())
    with pytest.raises(BadRows, match=r"cannot hold: column=ts .*rows=1"):
        upsert(table, [{"id": 1, "ts": lost, "city": "x"}], wide)
    assert table.rows() == rows

    upsert(table, [{"id": 1, "ts": NEWER, "city": "x"}], wide).wins()
    assert type_of(table) == old
    assert {"id": 1, "ts": NEWER, "city": "x"} in table.rows()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ("ALTER TABLE t ALTER COLUMN ts TYPE DOUBLE", REFUSED),
        ("INSERT INTO t (id, ts, city) SELECT id, ts, city FROM s", r"say CAST.*column=ts"),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET ts = s.ts",
            r"say CAST.*column=ts",
        ),
    ],
    ids=["ALTER", "INSERT", "MERGE"],
)
def test_no_statement_makes_a_double_of_an_int(
    tables: ScenarioTables, table_type: str, statement: str, refused: str
) -> None:
    table = made(tables, table_type)
    fill(table)
    before = table.listing()
    source = pa.table({"id": [1], "ts": [20.5], "city": ["x"]})

    with pytest.raises(InvalidInput, match=refused):
        run_sql(statement, tables={"t": table.lakehouse, "s": source})

    assert table.listing() == before


@pytest.mark.parametrize("strategy", ["simple", "evolvability"])
def test_writer_of_ints_loses_to_another_engine_that_made_a_double_of_them(
    tables: ScenarioTables, strategy: str
) -> None:
    table = made(tables, "MERGE_ON_READ")
    fill(table)
    options = {"hoodie.write.concurrency.schema.conflict.resolution.strategy": strategy}
    ours = upsert(table, ROWS, NARROW, mode="non-blocking", options=options)
    wide = TableSchema.from_arrow(
        schema_of(id=pa.int64(), ts=pa.float64(), city=pa.string()), table_name="scenario"
    )
    foreign_commit(table.table, {SCHEMA_KEY: wide.avro_json}, "UPSERT", Action.DELTACOMMIT)

    conflict = ours.loses()

    assert conflict.kind == "schema"
    assert "ordering column" in conflict.message
    assert [one["city"] for one in table.rows()] == ["first"] * 8


def test_deletes_of_the_older_type_stand_in_the_way_until_they_are_compacted(
    tables: ScenarioTables,
) -> None:
    """Apache Hudi fails on a delete that tells an int beside rows that hold longs."""
    table = made(tables, "MERGE_ON_READ")
    fill(table)
    upsert(table, NARROW_ROWS, NARROW).wins()
    before = table.listing()

    with pytest.raises(InvalidInput, match="compact the table"):
        upsert(table, WIDE_ROWS, WIDE)
    with pytest.raises(InvalidInput, match="compact the table"):
        open_table(table.location).alter(WidenColumn("ts", pa.int64()))

    assert table.listing() == before
    open_table(table.location).compact()
    upsert(table, WIDE_ROWS, WIDE).wins()
    # What a delete left no trace of once it is compacted may come back, as everywhere.
    assert [one for one in table.rows() if one["id"] != 2] == STANDING


def test_deletes_by_key_tell_no_age_and_stand_in_no_way(tables: ScenarioTables) -> None:
    table = made(tables, "MERGE_ON_READ")
    fill(table)
    table.writer("eraser").upsert({"id": 1}, operation="delete").wins()

    alter(table, WidenColumn("ts", pa.int64()))

    assert [one["id"] for one in table.rows()] == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("strategy", ["simple", "evolvability"])
def test_writer_that_still_has_the_older_type_commits_under_the_newer(
    tables: ScenarioTables, strategy: str
) -> None:
    table = made(tables, "MERGE_ON_READ")
    fill(table)
    options = {"hoodie.write.concurrency.schema.conflict.resolution.strategy": strategy}
    narrow = upsert(table, ROWS, NARROW, mode="non-blocking", options=options)
    tie = {"id": 7, "ts": NEWER, "city": "narrow"}
    other = upsert(table, [tie], NARROW, mode="non-blocking", options=options)
    wide_tie = row(7, NEWER, "wide")
    upsert(table, [*WIDE_ROWS, wide_tie], WIDE, mode="non-blocking", options=options).wins()

    narrow.wins()
    other.wins()

    assert type_of(table) == pa.int64()
    assert table.rows() == [tie if one["id"] == 7 else one for one in LEFT]
    table.assert_referee_agrees()
    open_table(table.location).compact()
    table.assert_referee_agrees()


def test_writer_whose_deletes_tell_the_older_type_loses_and_wins_again(
    tables: ScenarioTables,
) -> None:
    table = made(tables, "MERGE_ON_READ")
    fill(table)
    narrow = upsert(table, NARROW_ROWS, NARROW, mode="non-blocking")
    upsert(table, [row(4, FAR, "far")], WIDE, mode="non-blocking").wins()

    conflict = narrow.loses()

    assert conflict.kind == "schema"
    assert "ages of the older type" in conflict.message
    assert conflict.rival_writer == "int64"
    upsert(table, NARROW_ROWS, NARROW, mode="non-blocking").wins()
    assert [one["id"] for one in table.rows()] == [1, 3, 4, 5, 6, 7]


def test_writer_that_widens_loses_to_deletes_of_the_older_type(tables: ScenarioTables) -> None:
    table = made(tables, "MERGE_ON_READ")
    fill(table)
    wide = upsert(table, WIDE_ROWS, WIDE, mode="non-blocking")
    upsert(table, NARROW_ROWS, NARROW, mode="non-blocking").wins()

    conflict = wide.loses()

    assert conflict.kind == "schema"
    assert conflict.rival_writer == "int32"
    assert type_of(table) == pa.int32()


GROUPED = schema_of(id=pa.string(), ts_a=pa.int32(), a=pa.string(), ts_b=pa.int32(), b=pa.string())
BOTH_WIDE = schema_of(
    id=pa.string(), ts_a=pa.int64(), a=pa.string(), ts_b=pa.int64(), b=pa.string()
)


def grouped(
    tables: ScenarioTables, table_type: str, delete: str, granularity: str, order: str
) -> ScenarioTable:
    groups = [
        {
            "name": name,
            "ordering": [f"ts_{name}"],
            "columns": [name],
            "delete": delete,
            "granularity": granularity,
        }
        for name in order
    ]
    return tables(
        table_type=table_type,
        schema=GROUPED,
        options={
            "hoodie.multistream.groups": json.dumps(groups),
            "hoodie.bucket.index.num.buckets": "1",
        },
    )


def of_a(key: str, ts: int, text: str | None, *, deleted: bool = False) -> Row:
    return {"id": key, "ts_a": ts, "a": text, DELETED: deleted}


def of_b(key: str, ts: int, text: str | None, *, deleted: bool = False) -> Row:
    return {"id": key, "ts_b": ts, "b": text, DELETED: deleted}


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("delete", ["group", "row"])
@pytest.mark.parametrize("granularity", ["group", "column"])
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_ages_of_column_groups_are_widened_one_at_a_time(
    tables: ScenarioTables, table_type: str, delete: str, granularity: str, order: str
) -> None:
    table = grouped(tables, table_type, delete, granularity, order)
    writer = table.writer("streams")
    writer.upsert_and_commit(*(of_b(key, 5, "b") for key in "wxyz"))
    writer.upsert_and_commit(*(of_a(key, 10, "old") for key in "wxyz"))
    writer.upsert_and_commit(of_a("x", 20, None, deleted=True), of_a("y", 3, None, deleted=True))

    wide = [
        of_a("x", 15, "late"),
        of_a("y", FAR, "far"),
        of_a("z", FAR, None, deleted=True),
        of_a("w", 9, "late"),
    ]
    writer.upsert(*wide, schema=BOTH_WIDE).wins()
    writer.upsert_and_commit(of_b("w", 6, "b2"), of_b("y", 4, "late"))
    writer.upsert_and_commit(of_b("w", 2, None, deleted=True))

    assert (type_of(table, "ts_a"), type_of(table, "ts_b")) == (pa.int64(), pa.int32())
    kept = delete == "group"
    expected: dict[str, tuple[str | None, str | None]] = {"w": ("old", "b2"), "y": ("far", "b")}
    if kept:
        expected |= {"x": (None, "b"), "z": (None, "b")}

    def seen() -> dict[str, tuple[str | None, str | None]]:
        return {one["id"]: (one["a"], one["b"]) for one in table.rows()}

    assert seen() == expected
    if table_type == "MERGE_ON_READ":
        open_table(table.location).compact()
        assert seen() == expected
    alter(table, WidenColumn("ts_b", pa.int64()))
    assert seen() == expected
    writer = table.writer("later")
    writer.upsert(of_b("w", FAR, "b3"), schema=BOTH_WIDE).wins()
    last = of_a("w", 1, "late"), of_a("y", FAR + 1, None, deleted=True)
    writer.upsert(*last, schema=BOTH_WIDE).wins()
    expected["w"] = ("old", "b3")
    expected["y"] = (None, "b")
    if not kept:
        del expected["y"]
    assert seen() == expected
