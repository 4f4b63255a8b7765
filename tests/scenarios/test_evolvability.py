"""Strategy `evolvability` on real tables: two writers that change the schema in ways that go
together both succeed, and every reader sees what a serial order would have left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, schema_of
from workers.lakehouse import open_table
from workers.schema.table_schema import TableSchema
from workers.timeline.metadata import SCHEMA_KEY, SCHEMA_RESOLUTION_KEY

STRATEGY = "hoodie.write.concurrency.schema.conflict.resolution.strategy"
EVOLVABILITY = {STRATEGY: "evolvability"}
KINDS = [
    ("COPY_ON_WRITE", "optimistic"),
    ("MERGE_ON_READ", "optimistic"),
    ("MERGE_ON_READ", "non-blocking"),
    ("MERGE_ON_READ", "single"),
]
kinds = pytest.mark.parametrize("kind", KINDS, ids="-".join)
INNER, INNER_B, INNER_C = (
    pa.struct([("a", pa.int32())]),
    pa.struct([("a", pa.int32()), ("b", pa.string())]),
    pa.struct([("a", pa.int64()), ("c", pa.float64())]),
)
BASE = schema_of(
    id=pa.int64(),
    n=pa.int32(),
    f=pa.float32(),
    price=pa.decimal128(6, 2),
    inner=INNER,
    listed=pa.list_(pa.field("element", INNER)),
    mapped=pa.map_(pa.string(), INNER),
)
STANDING: Row = {
    "id": 0,
    "n": 1,
    "f": 0.5,
    "price": Decimal("1.25"),
    "inner": {"a": 1},
    "listed": [{"a": 1}],
    "mapped": [("k", {"a": 1})],
}


@dataclass(frozen=True)
class Change:
    """What one writer brings: a row, and the types that it needs."""

    row: Row
    types: dict[str, pa.DataType] = field(default_factory=dict)


CHANGES = {
    "nothing": Change({"n": 7}),
    "add x": Change({"x": "x"}, {"x": pa.string()}),
    "add y": Change({"y": 2**40}, {"y": pa.int64()}),
    "add x as int": Change({"x": 3}, {"x": pa.int32()}),
    "add x as long": Change({"x": 2**40}, {"x": pa.int64()}),
    "widen n to long": Change({"n": 2**40}, {"n": pa.int64()}),
    "widen n to double": Change({"n": 0.25}, {"n": pa.float64()}),
    "widen f": Change({"f": 1e300}, {"f": pa.float64()}),
    "widen price": Change({"price": Decimal("1.1234")}, {"price": pa.decimal128(8, 4)}),
    "widen price more": Change({"price": Decimal("1234567.5")}, {"price": pa.decimal128(9, 2)}),
    "add inner.b": Change({"inner": {"a": 2, "b": "b"}}, {"inner": INNER_B}),
    "add inner.c, widen inner.a": Change({"inner": {"a": 2**40, "c": 0.5}}, {"inner": INNER_C}),
    "add in list": Change(
        {"listed": [{"a": 2, "b": "b"}]}, {"listed": pa.list_(pa.field("element", INNER_B))}
    ),
    "widen in list": Change(
        {"listed": [{"a": 2**40, "c": 0.5}]}, {"listed": pa.list_(pa.field("element", INNER_C))}
    ),
    "add in map": Change(
        {"mapped": [("k", {"a": 2, "b": "b"})]}, {"mapped": pa.map_(pa.string(), INNER_B)}
    ),
    "widen in map": Change(
        {"mapped": [("k", {"a": 2**40, "c": 0.5})]}, {"mapped": pa.map_(pa.string(), INNER_C)}
    ),
}
TOGETHER = [
    ("add x", "add y"),
    ("add x", "add x"),
    ("add x as int", "add x as long"),
    ("add x as long", "add x as int"),
    ("add x", "widen n to long"),
    ("widen n to long", "widen f"),
    ("widen n to long", "widen n to long"),
    ("widen price", "widen price more"),
    ("add inner.b", "add inner.c, widen inner.a"),
    ("add in list", "widen in list"),
    ("add in map", "widen in map"),
    ("add inner.b", "widen n to double"),
    ("nothing", "add inner.b"),
    ("add in map", "nothing"),
]
APART = [
    ("add x", "add x as int", "x"),
    ("widen n to long", "widen n to double", "n"),
]


def begun(table: ScenarioTable, name: str, key: int, change: str, mode: str) -> Any:
    schema_change = CHANGES[change]
    writer = table.writer(name, mode=mode, options=EVOLVABILITY)
    return writer.upsert({"id": key, **schema_change.row}, schema=pa.schema(schema_change.types))


def filled(tables: ScenarioTables, kind: tuple[str, str]) -> ScenarioTable:
    """Base files below everything: hudi-rs does not widen a slice of logs alone."""
    table = tables(table_type=kind[0], schema=BASE)
    base_rows = [{**STANDING, "id": key} for key in (0, 1, 2, 8)]
    table.writer("first", mode="optimistic").upsert_and_commit(*base_rows)
    return table


def leaves(schema: pa.Schema) -> set[str]:
    """(path, type) of everything, whatever the order."""
    return {leaf for one in schema for leaf in _leaves(one.name, one.type)}


def _leaves(path: str, kind: Any) -> list[str]:
    if pa.types.is_struct(kind):
        return [leaf for one in kind for leaf in _leaves(f"{path}.{one.name}", one.type)]
    if pa.types.is_list(kind):
        return _leaves(f"{path}.element", kind.value_type)
    if pa.types.is_map(kind):
        return _leaves(f"{path}.value", kind.item_type)
    return [f"{path} {kind}"]


def contents(table: ScenarioTable) -> tuple[set[str], list[str]]:
    """What a serial order is compared by: fields as a set, rows whatever the order of columns."""
    schema = open_table(table.location).schema()
    assert schema is not None
    return leaves(schema), [_sorted_text(row) for row in table.rows()]


def _sorted_text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_sorted_text(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_sorted_text, value))}]"
    return repr(value)


@pytest.mark.sampled(every=8)
@kinds
@pytest.mark.parametrize(("theirs", "ours"), TOGETHER)
def test_both_succeed_and_leave_what_either_serial_order_leaves(
    tables: ScenarioTables, kind: tuple[str, str], theirs: str, ours: str
) -> None:
    """The acceptance oracle of requirements 2.4: replay both in both orders, compare the tables.

    The rival begins first, because hudi-rs takes the schema of the commit that was requested last.
    """
    at_once, rival_first, rival_last = (filled(tables, kind) for _ in range(3))
    rival = begun(at_once, "rival", 2, theirs, kind[1])
    writer = begun(at_once, "writer", 8, ours, kind[1])
    rival.wins()
    writer.wins()
    for table, order in (
        (rival_first, ((2, theirs), (8, ours))),
        (rival_last, ((8, ours), (2, theirs))),
    ):
        for key, change in order:
            begun(table, f"writer of {key}", key, change, kind[1]).wins()

    assert contents(at_once) == contents(rival_first)
    assert contents(at_once) == contents(rival_last)
    if kind[0] == "MERGE_ON_READ":
        compacted_agrees(at_once, [rival_first, rival_last], f"{theirs} {ours}")


def compacted_agrees(at_once: ScenarioTable, serial: list[ScenarioTable], changes: str) -> None:
    """The merge is no obstacle to compaction, and hudi-rs, which evolves nested columns and
    decimals of base files alone, reads what it leaves. It refuses a single writer's logs as well.
    """
    if any(word in changes for word in ("inner", "list", "map", "price")):
        for table in serial:
            table.excuse_referee("hudi-rs does not evolve nested columns and decimals of logs")
    before = at_once.rows()
    open_table(at_once.location, ports=at_once.ports()).compact()
    assert at_once.rows() == before
    at_once.assert_referee_agrees()


@kinds
@pytest.mark.parametrize(("theirs", "ours", "path"), APART)
def test_what_no_type_holds_both_of_is_a_conflict_that_names_the_path(
    tables: ScenarioTables, kind: tuple[str, str], theirs: str, ours: str, path: str
) -> None:
    table = filled(tables, kind)
    rival = begun(table, "rival", 2, theirs, kind[1])
    writer = begun(table, "writer", 8, ours, kind[1])
    rival.wins()
    before = table.rows()

    conflict = writer.loses()

    assert conflict.schemas is not None
    assert [found for found, _ in conflict.schemas.clashes] == [path]
    assert f"agree with the other writer on {path}" in conflict.schemas.advice
    assert table.rows() == before
    assert table.orphan_files() == []
    assert table.leftovers() == []


@kinds
def test_commit_carries_the_merge_in_their_order_and_says_where_each_field_came_from(
    tables: ScenarioTables, kind: tuple[str, str]
) -> None:
    table = filled(tables, kind)
    rival = begun(table, "rival", 2, "add x", kind[1])
    writer = begun(table, "writer", 8, "add y", kind[1])
    rival.wins()

    committed = writer.wins()

    extra = table.metadata(committed.instant).extra_metadata
    merged = TableSchema.from_avro_json(extra[SCHEMA_KEY])
    assert merged.field_names == (*BASE.names, "x", "y")
    record = json.loads(extra[SCHEMA_RESOLUTION_KEY])
    assert (record["mode"], record["case"], record["scenario"]) == ("evolvability", "7", 8)
    assert record["validation_instant"] == rival.last_instant
    assert [(one["path"], one["by"]) for one in record["fields"]] == [
        ("x", "rival"),
        ("y", "writer"),
    ]


def test_new_table_takes_both_first_schemas(tables: ScenarioTables) -> None:
    """Scenario 3: no schema at the start, two different ones at once."""
    table = tables(schema=None)
    rival, writer = (table.writer(name, options=EVOLVABILITY) for name in ("rival", "writer"))
    rival.upsert({"id": 1, "a": "a"}, schema=schema_of(id=pa.int64(), a=pa.string()))
    writer.upsert({"id": 2, "b": 2}, schema=schema_of(id=pa.int64(), b=pa.int32()))
    rival.wins()

    writer.wins()

    assert table.rows() == [{"id": 1, "a": "a", "b": None}, {"id": 2, "a": None, "b": 2}]


def test_chain_of_writers_that_all_began_together_ends_in_the_merge_of_all(
    tables: ScenarioTables,
) -> None:
    table = tables(schema=schema_of(id=pa.int64()), table_type="MERGE_ON_READ")
    names = [f"c{number}" for number in range(6)]
    writers = [
        table.writer(name, mode="non-blocking", options=EVOLVABILITY).upsert(
            {"id": number, name: number}, schema=schema_of(**{name: pa.int32()})
        )
        for number, name in enumerate(names)
    ]

    for writer in writers:
        writer.wins()

    assert table.schema_columns() == ["id", *names]
    assert [row[f"c{row['id']}"] for row in table.rows()] == list(range(6))


@pytest.mark.parametrize("kind", KINDS[:3], ids="-".join)
def test_compaction_and_later_writes_keep_what_was_merged(
    tables: ScenarioTables, kind: tuple[str, str]
) -> None:
    table = filled(tables, kind)
    rival = begun(table, "rival", 1, "widen n to long", kind[1])
    writer = begun(table, "writer", 8, "add inner.c, widen inner.a", kind[1])
    rival.wins()
    writer.wins()
    before = table.rows()

    if kind[0] == "MERGE_ON_READ":
        open_table(table.location, ports=table.ports()).compact()
    assert table.rows() == before
    begun(table, "later", 1, "add y", kind[1]).wins()

    assert {row["id"]: row["y"] for row in table.rows()} == {0: None, 1: 2**40, 2: None, 8: None}
