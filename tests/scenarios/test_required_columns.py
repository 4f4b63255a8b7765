"""Columns that are declared `nullable=False`: kept in the schema, and enforced on every way in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import MODES, Row, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed
from workers.errors import BadRows, InvalidInput
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.schema.alter import RelaxColumn
from workers.schema.from_arrow import optional
from workers.sql.run import run_sql

STRATEGY = "hoodie.write.concurrency.schema.conflict.resolution.strategy"
DIRECT = {"hoodie.write.markers.type": "direct"}
FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("city", pa.string(), nullable=False),
    pa.field("size", pa.int32()),
]
MUST = pa.schema(FIELDS)
KINDS = [
    ("COPY_ON_WRITE", "optimistic"),
    ("MERGE_ON_READ", "optimistic"),
    ("MERGE_ON_READ", "non-blocking"),
]
kinds = pytest.mark.parametrize("kind", KINDS, ids="-".join)
strategies = pytest.mark.parametrize("strategy", ["simple", "evolvability"])


def write(
    table: ScenarioTable, batch: pa.Table, mode: str = "optimistic", operation: str = "upsert"
) -> object:
    given = {**DIRECT, "hoodie.write.concurrency.mode": MODES[mode]}
    return open_table(table.location).write(batch, operation, options=given)


def batch(*rows: Row) -> pa.Table:
    """Columns that may be null, as most sources have them."""
    loose = optional(MUST)
    return pa.Table.from_pylist(list(rows), schema=loose)


def required(table: ScenarioTable) -> list[str]:
    schema = open_table(table.location).schema()
    assert schema is not None
    return [field.name for field in schema if not field.nullable]


@kinds
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_null_in_a_required_column_is_refused_with_its_row_and_leaves_nothing(
    tables: ScenarioTables, kind: tuple[str, str], operation: str
) -> None:
    if (kind[1], operation) == ("non-blocking", "bulk_insert"):
        operation = "upsert"
    table = tables(table_type=kind[0], schema=MUST)
    write(table, batch({"id": 1, "city": "Oslo"}), kind[1])
    bad = batch({"id": 1, "city": "Bergen"}, {"id": 2, "city": None}, {"id": 3, "city": "Rome"})

    with pytest.raises(BadRows) as refused:
        write(table, bad, kind[1], operation)

    assert refused.value.positions == (1,)
    assert refused.value.values["column"] == "city"
    assert table.rows("id", "city") == [{"id": 1, "city": "Oslo"}]
    assert table.orphan_files() == []
    assert required(table) == ["id", "city"]


@kinds
def test_required_columns_stay_required_over_writes_deletes_and_services(
    tables: ScenarioTables, kind: tuple[str, str]
) -> None:
    table = tables(table_type=kind[0], schema=MUST)
    write(table, batch(*({"id": key, "city": "Oslo", "size": key} for key in range(6))), kind[1])
    write(table, batch({"id": 2, "city": "Bergen"}), kind[1])
    given = {**DIRECT, "hoodie.write.concurrency.mode": MODES[kind[1]]}
    open_table(table.location).delete(pa.table({"id": [3]}), options=given)
    if kind[0] == "MERGE_ON_READ":
        open_table(table.location).compact()

    assert required(table) == ["id", "city"]
    assert [one["id"] for one in table.rows()] == [0, 1, 2, 4, 5]


def test_a_batch_without_a_required_column_is_refused_before_anything_is_written(
    tables: ScenarioTables,
) -> None:
    table = tables(schema=MUST)
    before = table.listing()

    with pytest.raises(InvalidInput, match="lacks columns that the table requires"):
        write(table, pa.table({"id": [1], "size": pa.array([1], pa.int32())}))

    assert table.listing() == before


def test_null_inside_a_struct_list_or_map_is_refused_with_its_path(tables: ScenarioTables) -> None:
    inner: Any = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])
    value: Any = pa.field("value", inner, nullable=False)
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("inner", inner),
            pa.field("listed", pa.list_(pa.field("element", pa.int32(), nullable=False))),
            pa.field("mapped", pa.map_(pa.string(), value)),
        ]
    )
    table = tables(schema=schema)
    loose = table.batch
    good: list[Row] = [
        {"id": 1, "inner": {"a": 1, "b": None}, "listed": [1], "mapped": [("k", {"a": 1})]},
        {"id": 2, "inner": None, "listed": None, "mapped": None},
        {"id": 3, "inner": {"a": 3, "b": "b"}, "listed": [], "mapped": []},
    ]
    write(table, _loose(loose(good)))

    changes: dict[str, Row] = {
        "inner.a": {"inner": {"a": None, "b": "b"}},
        "listed.element": {"listed": [1, None]},
        "mapped.value": {"mapped": [("k", None)]},
        "mapped.value.a": {"mapped": [("k", {"a": None, "b": "b"})]},
    }
    for path, change in changes.items():
        bad = pa.Table.from_pylist([*good[:2], good[2] | change], schema=optional(schema))
        with pytest.raises(BadRows) as refused:
            write(table, bad)
        assert (refused.value.values["column"], refused.value.positions) == (path, (2,))


def _loose(rows: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(rows.to_pylist(), schema=optional(rows.schema))


def test_a_new_required_column_is_refused_and_an_optional_one_taken(tables: ScenarioTables) -> None:
    """E-28."""
    table = tables(schema=MUST)
    write(table, batch({"id": 1, "city": "Oslo"}))
    rows = batch({"id": 2, "city": "Rome"})
    note = pa.field("note", pa.string(), nullable=False)
    before = table.listing()

    with pytest.raises(InvalidInput, match="required but has no default"):
        write(table, rows.append_column(note, pa.array(["x"])))

    assert table.listing() == before
    write(table, rows.append_column(note.with_nullable(True), pa.array(["x"])))
    assert table.schema_columns() == ["id", "city", "size", "note"]


def test_a_first_write_that_declares_a_column_required_makes_it_so(tables: ScenarioTables) -> None:
    table = tables(schema=None)

    write(table, pa.Table.from_pylist([{"id": 1, "city": "Oslo", "size": None}], schema=MUST))

    assert required(table) == ["id", "city"]


@pytest.mark.parametrize("has_column", [False, True], ids=["as a mark", "as a column"])
def test_a_row_that_is_deleted_may_lack_what_is_required_unless_it_is_kept(
    tables: ScenarioTables, has_column: bool
) -> None:
    mark = pa.field("_hoodie_is_deleted", pa.bool_())
    schema = MUST.append(mark) if has_column else MUST
    table = tables(table_type="MERGE_ON_READ", schema=schema)
    write(table, batch({"id": 1, "city": "Oslo"}, {"id": 2, "city": "Rome"}))
    deleted = batch({"id": 1, "city": None}).append_column(mark, pa.array([True]))

    if has_column:
        with pytest.raises(BadRows, match="required"):
            write(table, deleted)
        return
    write(table, deleted)

    assert [one["id"] for one in table.rows()] == [2]


@strategies
def test_a_column_that_is_relaxed_beside_a_writer_is_optional_afterwards(
    tables: ScenarioTables, strategy: str
) -> None:
    """E-26."""
    table = tables(schema=MUST)
    writer = table.writer("writer", options={STRATEGY: strategy})
    writer.begin(batch().schema)
    writer.write_batch(batch({"id": 1, "city": "Oslo"}))
    table.lakehouse.alter(RelaxColumn("city"), options=DIRECT)

    writer.wins()

    assert required(table) == ["id"]
    write(table, batch({"id": 2, "city": None}))
    assert [one["city"] for one in table.rows()] == ["Oslo", None]


@strategies
def test_a_writer_of_nulls_loses_when_the_relaxing_is_taken_back(
    tables: ScenarioTables, strategy: str
) -> None:
    """E-27: for it the column became required."""
    table = tables(schema=MUST)
    write(table, batch({"id": 1, "city": "Oslo"}))
    relaxed: Any = table.lakehouse.alter(RelaxColumn("city"), options=DIRECT)
    assert isinstance(relaxed, Committed), relaxed
    writer = table.writer("writer", options={STRATEGY: strategy})
    writer.begin(batch().schema)
    writer.write_batch(batch({"id": 2, "city": None}))
    request = RollbackRequest(relaxed.instant, by="admin", reason="test")
    rollback(table.table, request, write_options({}))

    conflict = writer.loses()

    assert conflict.kind == "schema"
    assert table.rows("city") == [{"city": "Oslo"}]


def test_sql_keeps_not_null(tmp_path: Path) -> None:
    place = tmp_path / "sql"
    run_sql(
        f"CREATE TABLE t (id BIGINT, city STRING NOT NULL) USING hudi LOCATION '{place}' "
        "TBLPROPERTIES (primaryKey = 'id')",
    )
    named = {"t": open_table(place)}
    run_sql("INSERT INTO t VALUES (1, 'Oslo')", tables=named, options=DIRECT)

    with pytest.raises(BadRows, match="column=city"):
        run_sql("INSERT INTO t VALUES (2, NULL)", tables=named, options=DIRECT)
    with pytest.raises(BadRows, match="column=city"):
        run_sql("UPDATE t SET city = NULL WHERE id = 1", tables=named, options=DIRECT)

    assert open_table(place).read().to_pylist() == [{"id": 1, "city": "Oslo"}]


def test_an_update_of_other_columns_leaves_the_required_ones(tables: ScenarioTables) -> None:
    """Of a table that takes narrow rows."""
    partial = {
        "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    }
    table = tables(table_type="MERGE_ON_READ", schema=MUST, options=partial)
    write(table, batch({"id": 1, "city": "Oslo", "size": 1}))

    run_sql("UPDATE t SET size = 2 WHERE id = 1", tables={"t": table.lakehouse}, options=DIRECT)

    assert table.rows() == [{"id": 1, "city": "Oslo", "size": 2}]
