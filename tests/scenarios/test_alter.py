"""Explicit alters: what readers and open writers see of them (requirements 2.3, E-19 to E-31)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables, schema_of
from tests.support.watched_storage import At, WatchedStorage
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.schema.alter import (
    AddColumn,
    DropColumn,
    RelaxColumn,
    RenameColumn,
    SchemaChange,
    WidenColumn,
)
from workers.schema.table_schema import TableSchema
from workers.timeline.instant import Action
from workers.write.alter import alter_schema

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
kinds = pytest.mark.parametrize("kind", KINDS)
COLUMNS = schema_of(id=pa.int64(), city=pa.string(), size=pa.int32())


def filled(tables: ScenarioTables, kind: str = "MERGE_ON_READ") -> ScenarioTable:
    """Two rows, the second of them updated: in a merge-on-read table by a log."""
    table = tables(schema=COLUMNS, table_type=kind)
    first = table.writer("first")
    first.upsert_and_commit(
        {"id": 1, "city": "Oslo", "size": 1}, {"id": 2, "city": "Lund", "size": 2}
    )
    first.upsert_and_commit({"id": 2, "city": "Lund", "size": 3})
    return table


def alter(table: ScenarioTable, *changes: SchemaChange) -> None:
    outcome = open_table(table.location, ports=table.ports()).alter(
        *changes, options={"hoodie.write.markers.type": "direct"}
    )
    assert isinstance(outcome, Committed), outcome


def current(table: ScenarioTable) -> pa.Schema:
    schema = open_table(table.location).schema()
    assert schema is not None
    return schema


@kinds
def test_added_column_is_null_in_old_rows_and_taken_by_new_ones(
    tables: ScenarioTables, kind: str
) -> None:
    table = filled(tables, kind)

    alter(table, AddColumn("note", pa.string()))
    table.writer("later").upsert_and_commit({"id": 3, "city": "Bern", "size": 4, "note": "new"})

    assert [row["note"] for row in table.rows()] == [None, None, "new"]
    last_but_one = table.instants()[-2]
    assert table.metadata(last_but_one.requested_at).operation_type == "ALTER_SCHEMA"


@kinds
def test_dropped_column_is_gone_for_readers_and_files_are_left_alone(
    tables: ScenarioTables, kind: str
) -> None:
    table = filled(tables, kind)
    files = table.data_files()

    alter(table, DropColumn("size"))

    assert table.rows() == [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Lund"}]
    assert table.data_files() == files
    table.writer("later").upsert_and_commit({"id": 2, "city": "Kiruna"})
    assert table.rows() == [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Kiruna"}]


@kinds
def test_dropped_name_is_not_given_away_while_files_hold_its_values(
    tables: ScenarioTables, kind: str
) -> None:
    """Readers project by name: the old sizes would come back as the new column's."""
    table = filled(tables, kind)
    alter(table, DropColumn("size"))
    before = table.listing()

    with pytest.raises(InvalidInput, match="was dropped"):
        alter(table, AddColumn("size", pa.string()))
    with pytest.raises(InvalidInput, match="was dropped"):
        table.writer("later").upsert({"id": 3, "city": "Bern", "size": 4})
    with pytest.raises(InvalidInput, match="was dropped"):
        table.writer("later").upsert(
            {"id": 3, "city": "Bern", "SIZE": "big"}, schema=schema_of(SIZE=pa.string())
        )

    assert table.listing() == before


def test_dropped_name_is_free_again_once_no_file_holds_it(tables: ScenarioTables) -> None:
    table = filled(tables, "COPY_ON_WRITE")
    alter(table, DropColumn("size"))
    whole = [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Lund"}]
    table.writer("rewriter").upsert_and_commit(*whole)

    alter(table, AddColumn("size", pa.string()))

    assert table.rows() == [row | {"size": None} for row in whole]


@kinds
def test_widened_column_holds_old_and_new_values(tables: ScenarioTables, kind: str) -> None:
    table = filled(tables, kind)

    alter(table, WidenColumn("size", pa.int64()))
    table.writer("later").upsert_and_commit(
        {"id": 3, "city": "Bern", "size": 2**40}, schema=schema_of(size=pa.int64())
    )

    assert current(table).field("size").type == pa.int64()
    assert [row["size"] for row in table.rows()] == [1, 3, 2**40]


@kinds
def test_renamed_column_keeps_its_values_under_the_new_name(
    tables: ScenarioTables, kind: str
) -> None:
    table = filled(tables, kind)
    before = table.data_files()

    alter(table, RenameColumn("city", "town"))

    assert table.rows() == [
        {"id": 1, "town": "Oslo", "size": 1},
        {"id": 2, "town": "Lund", "size": 3},
    ]
    assert table.instants()[-1].action is Action.REPLACECOMMIT
    assert set(table.data_files()) > set(before)
    table.writer("later").upsert_and_commit({"id": 1, "town": "Bergen", "size": 9})
    assert table.rows("town") == [{"town": "Bergen"}, {"town": "Lund"}]


def test_rename_may_come_with_other_changes_and_frees_dropped_names(
    tables: ScenarioTables,
) -> None:
    table = filled(tables)
    alter(table, DropColumn("size"))

    alter(table, RenameColumn("city", "town"), AddColumn("note", pa.string()))
    alter(table, AddColumn("size", pa.string()), AddColumn("city", pa.int32()))

    assert table.rows()[0] == {"id": 1, "town": "Oslo", "note": None, "size": None, "city": None}


def test_rename_of_an_empty_table_changes_its_schema(tables: ScenarioTables) -> None:
    table = tables(schema=COLUMNS)

    alter(table, RenameColumn("city", "town"))

    assert current(table).names == ["id", "town", "size"]


def test_a_column_that_may_be_null_is_not_relaxed(tables: ScenarioTables) -> None:
    """E-26; `test_required_columns.py` relaxes one that is required."""
    table = tables(schema=COLUMNS)

    with pytest.raises(InvalidInput, match="null already"):
        alter(table, RelaxColumn("size"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (DropColumn("id"), "stay as they are"),
        (RenameColumn("id", "key"), "stay as they are"),
        (WidenColumn("place", pa.int64()), "stay as they are"),
        (DropColumn("place"), "stay as they are"),
        (DropColumn("nobody"), "no such column"),
        (AddColumn("city", pa.string()), "already"),
        (AddColumn("City", pa.string()), "differ only by case"),
        (RenameColumn("city", "SIZE"), "differ only by case"),
        (RenameColumn("city", "size"), "already"),
        (RenameColumn("city", "a-b"), "name"),
        (AddColumn("new", pa.int32(), is_nullable=False), "has a default"),
        (WidenColumn("size", pa.int16()), "this type already"),
        (WidenColumn("city", pa.int64()), "every value"),
        (WidenColumn("size", pa.float32()), "every value"),
    ],
    ids=str,
)
def test_alter_that_no_reader_could_follow_is_refused_and_changes_nothing(
    tables: ScenarioTables, change: SchemaChange, says: str
) -> None:
    schema = schema_of(
        id=pa.int64(), place=pa.string(), ts=pa.int32(), city=pa.string(), size=pa.int32()
    )
    table = tables(schema=schema, ordering=["ts"], partition_by=["place"])
    before = table.listing()

    with pytest.raises(InvalidInput, match=says):
        alter(table, change)

    assert table.listing() == before


@kinds
def test_writer_open_across_an_added_column_commits_under_the_new_schema(
    tables: ScenarioTables, kind: str
) -> None:
    """E-19."""
    table = filled(tables, kind)
    slow = table.writer("slow").upsert({"id": 3, "city": "Bern", "size": 4})

    alter(table, AddColumn("note", pa.string()))
    slow.wins()

    assert current(table).names == ["id", "city", "size", "note"]
    assert len(table.rows()) == 3


@kinds
def test_writer_open_across_a_widened_column_commits_under_the_new_type(
    tables: ScenarioTables, kind: str
) -> None:
    """E-23."""
    table = filled(tables, kind)
    slow = table.writer("slow").upsert({"id": 3, "city": "Bern", "size": 4})

    alter(table, WidenColumn("size", pa.int64()))
    slow.wins()

    assert current(table).field("size").type == pa.int64()
    assert [row["size"] for row in table.rows()] == [1, 3, 4]


@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
def test_writer_open_across_a_rename_is_told_so(tables: ScenarioTables, mode: str) -> None:
    """E-22: its file would fill a column that is not there any more."""
    table = filled(tables)
    slow = table.writer("slow", mode=mode).upsert({"id": 3, "city": "Bern", "size": 4})

    alter(table, RenameColumn("city", "town"))
    slow.loses()

    assert [row["town"] for row in table.rows()] == ["Oslo", "Lund"]


def test_rename_loses_to_a_writer_that_commits_while_the_table_is_rewritten(
    tables: ScenarioTables,
) -> None:
    table = filled(tables)
    rival = table.writer("rival")

    def interfere() -> None:
        rival.upsert_and_commit({"id": 9, "city": "Bern", "size": 4})

    storage = WatchedStorage(table.location, before=At("create_data", ".parquet", interfere))
    rewriting = open_table(table.location, ports=table.ports(), storage=storage).table
    options = write_options({"hoodie.write.markers.type": "direct"})
    outcome = alter_schema(rewriting, options, [RenameColumn("city", "town")])

    assert isinstance(outcome, Conflicted)
    assert [row["city"] for row in table.rows()] == ["Oslo", "Lund", "Bern"]
    assert table.orphan_files() == []


def test_batch_whose_column_differs_only_by_case_is_refused(tables: ScenarioTables) -> None:
    """E-25."""
    table = filled(tables)

    with pytest.raises(InvalidInput, match="differ only by case"):
        table.writer("other").upsert({"id": 3, "City": "Bern"}, schema=schema_of(City=pa.string()))


NESTED: dict[str, Callable[[Any], Any]] = {
    "struct": lambda inner: inner,
    "list of struct": lambda inner: pa.list_(pa.field("element", inner)),
    "map value": lambda inner: pa.map_(pa.string(), inner),
}
VALUES: dict[str, Callable[[Any], Any]] = {
    "struct": lambda inner: inner,
    "list of struct": lambda inner: [inner],
    "map value": lambda inner: [("k", inner)],
}


@kinds
@pytest.mark.parametrize("place", list(NESTED))
@pytest.mark.parametrize("by", ["batch", "alter"])
def test_field_added_inside_a_nested_column_is_null_in_old_rows(
    tables: ScenarioTables, kind: str, place: str, by: str
) -> None:
    """E-29."""
    old, new = pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64()), ("b", pa.string())])
    narrow, wide = NESTED[place](old), NESTED[place](new)
    table = tables(schema=schema_of(id=pa.int64(), nested=narrow), table_type=kind)
    value = VALUES[place]
    table.writer("first").upsert_and_commit(
        {"id": 1, "nested": value({"a": 1})}, {"id": 2, "nested": None}
    )

    if by == "alter":
        alter(table, WidenColumn("nested", wide))
    table.writer("second").upsert_and_commit(
        {"id": 3, "nested": value({"a": 2**40, "b": "x"})}, schema=schema_of(nested=wide)
    )

    assert current(table).field("nested").type == wide
    assert [row["nested"] for row in table.rows()] == [
        value({"a": 1, "b": None}),
        None,
        value({"a": 2**40, "b": "x"}),
    ]


def test_nested_fields_that_differ_only_by_case_are_refused(tables: ScenarioTables) -> None:
    old = pa.struct([("a", pa.int32())])
    new = pa.struct([("a", pa.int32()), ("A", pa.int32())])
    table = tables(schema=schema_of(id=pa.int64(), nested=old))

    with pytest.raises(InvalidInput, match="two fields of one name"):
        table.writer("w").upsert({"id": 1, "nested": {"a": 1}}, schema=schema_of(nested=new))
    with pytest.raises(InvalidInput):
        table.writer("w").upsert(
            {"id": 1, "nested": {"A": 1}},
            schema=schema_of(nested=pa.struct([("A", pa.int32())])),
        )


def test_portable_table_is_not_altered_to_what_hudi_rs_cannot_read(tables: ScenarioTables) -> None:
    table = tables(schema=COLUMNS, options={"sluice.portable": "true"})
    before = table.timeline()

    with pytest.raises(InvalidInput, match=r"portable.*seen_at"):
        alter(table, AddColumn("seen_at", pa.timestamp("us")))
    alter(table, AddColumn("seen_at", pa.timestamp("us", "UTC")))

    assert len(table.timeline()) == len(before) + 1


def test_memory_of_dropped_columns_survives_later_writes_and_is_no_part_of_equality() -> None:
    schema = TableSchema.from_arrow(COLUMNS, table_name="t")

    assert schema.dropped == ()
    assert TableSchema.from_avro({**schema.to_avro(), "sluice.dropped": ["x"]}).dropped == ("x",)
