"""`SET NOT NULL`, `DROP NOT NULL`, and required columns that are added: what is there decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import MODES, Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import At, WatchedStorage
from workers.concurrency.outcome import Committed
from workers.errors import BadRows, InvalidInput
from workers.lakehouse import open_table
from workers.schema.alter import (
    AddColumn,
    DropColumn,
    RelaxColumn,
    RenameColumn,
    RequireColumn,
    SchemaChange,
)
from workers.sql.run import run_sql

STRATEGY = "hoodie.write.concurrency.schema.conflict.resolution.strategy"
DIRECT = {"hoodie.write.markers.type": "direct"}
COLUMNS: dict[str, pa.DataType] = {"id": pa.int64(), "city": pa.string(), "size": pa.int32()}
SCHEMA = pa.schema(COLUMNS)
kinds = pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
strategies = pytest.mark.parametrize("strategy", ["simple", "evolvability"])


def write(table: ScenarioTable, *rows: Row, mode: str = "optimistic") -> Any:
    batch = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    given = {**DIRECT, "hoodie.write.concurrency.mode": MODES[mode]}
    return open_table(table.location).write(batch, options=given)


def alter(table: ScenarioTable, *changes: SchemaChange) -> Any:
    return open_table(table.location).alter(*changes, options=DIRECT)


def required(table: ScenarioTable) -> list[str]:
    schema = open_table(table.location).schema()
    assert schema is not None
    return [field.name for field in schema if not field.nullable]


@kinds
def test_a_column_without_nulls_becomes_required_and_optional_again(
    tables: ScenarioTables, kind: str
) -> None:
    table = tables(table_type=kind, schema=SCHEMA)
    write(table, {"id": 1, "city": "Oslo"}, {"id": 2, "city": "Rome"})
    write(table, {"id": 1, "city": "Bergen"})

    alter(table, RequireColumn("city"))

    assert required(table) == ["city"]
    with pytest.raises(BadRows, match=r"column=city.*first_keys=\['3'\]"):
        write(table, {"id": 4, "city": "Turku"}, {"id": 3, "city": None})
    write(table, {"id": 3, "city": "Lima"})
    alter(table, RelaxColumn("city"))
    assert required(table) == []
    write(table, {"id": 3, "city": None})
    assert [one["city"] for one in table.rows()] == ["Bergen", "Rome", None]


@kinds
def test_a_column_with_nulls_is_not_made_required_and_the_refusal_names_count_and_keys(
    tables: ScenarioTables, kind: str
) -> None:
    table = tables(table_type=kind, schema=SCHEMA)
    write(table, *({"id": number, "city": "Oslo" if number % 2 else None} for number in range(14)))
    before = [one for one in table.timeline() if one[0] != "rollback"]

    with pytest.raises(InvalidInput, match="hold null") as refused:
        alter(table, RequireColumn("city"))

    said = refused.value.values
    assert (said["column"], said["rows"]) == ("city", 7)
    assert set(said["first_keys"]) < {str(number) for number in range(0, 14, 2)}  # type: ignore[call-overload]
    assert [one for one in table.timeline() if one[0] != "rollback"] == before
    assert required(table) == []
    assert table.orphan_files() == []


@pytest.mark.parametrize("cities", [(None, "Oslo"), ("Rome", None, "Oslo")], ids=str)
def test_a_null_that_a_log_hides_counts_until_it_is_compacted(
    tables: ScenarioTables, cities: tuple[str | None, ...]
) -> None:
    """Apache Hudi decodes every version under the table's schema."""
    table = tables(table_type="MERGE_ON_READ", schema=SCHEMA)
    for city in cities:
        write(table, {"id": 1, "city": city})

    with pytest.raises(InvalidInput, match="compact where a log hides the old row"):
        alter(table, RequireColumn("city"))

    open_table(table.location).compact(parameters={"hoodie.compact.inline.max.delta.commits": "1"})
    alter(table, RequireColumn("city"))
    assert required(table) == ["city"]


@kinds
def test_a_column_that_older_files_lack_is_not_made_required(
    tables: ScenarioTables, kind: str
) -> None:
    table = tables(table_type=kind, schema=SCHEMA)
    write(table, {"id": 1, "city": "Oslo"})
    alter(table, AddColumn("note", pa.string()))

    with pytest.raises(InvalidInput, match="hold null") as refused:
        alter(table, RequireColumn("note"))

    assert (refused.value.values["column"], refused.value.values["rows"]) == ("note", 1)


@strategies
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ", "non-blocking"])
def test_a_writer_of_before_loses_to_what_made_its_column_required(
    tables: ScenarioTables, kind: str, strategy: str
) -> None:
    """E-27: its rows may lack the column."""
    mode = "non-blocking" if kind == "non-blocking" else "optimistic"
    table_type = "MERGE_ON_READ" if mode == "non-blocking" else kind
    table = tables(table_type=table_type, schema=SCHEMA)
    write(table, {"id": 1, "city": "Oslo"})
    slow = table.writer("slow", mode=mode, options={STRATEGY: strategy})
    slow.upsert({"id": 2, "city": None})

    alter(table, RequireColumn("city"))
    conflict = slow.loses()

    assert conflict.kind == "schema"
    assert table.rows("city") == [{"city": "Oslo"}]


@kinds
def test_nulls_that_are_committed_after_the_first_look_are_met_under_the_lock(
    tables: ScenarioTables, kind: str
) -> None:
    table = tables(table_type=kind, schema=SCHEMA)
    write(table, {"id": 1, "city": "Oslo"})
    slow = table.writer("slow").upsert({"id": 2, "city": None})

    def commit() -> None:
        slow.wins()

    looked = At("open_data", "", commit)
    watched = WatchedStorage(table.location)
    handle = open_table(table.location, storage=watched)
    watched.watch(before=_of_data(looked))

    with pytest.raises(InvalidInput, match="hold null") as refused:
        handle.alter(RequireColumn("city"), options=DIRECT)

    assert looked.hits == 1
    assert (refused.value.values["rows"], refused.value.values["first_keys"]) == (1, ["2"])
    assert required(table) == []
    assert [one["id"] for one in table.rows()] == [1, 2]


def _of_data(at: At) -> Any:
    def before(call: str, path: str) -> None:
        if not path.startswith(".hoodie"):
            at(call, path)

    return before


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([RequireColumn("id")], "stay as they are"),
        ([RequireColumn("nobody")], "no such column"),
        ([RequireColumn("city"), RequireColumn("city")], "required already"),
        ([RequireColumn("city"), RenameColumn("size", "much")], "a change of its own"),
        ([AddColumn("n", pa.int32(), is_nullable=False)], "required and has a default"),
        ([AddColumn("n", pa.int32(), default=1)], "required and has a default"),
        ([AddColumn("n", pa.int32(), False, "x")], "that the column's type holds"),
        ([AddColumn("n", pa.int32(), False, 2**40)], "that the column's type holds"),
        ([AddColumn("n", pa.int32(), False, True)], "that the column's type holds"),
        ([AddColumn("n", pa.float64(), False, float("nan"))], "that the column's type holds"),
        ([AddColumn("n", pa.date32(), False, 1)], "that the column's type holds"),
    ],
    ids=str,
)
def test_what_cannot_be_required_is_refused_and_changes_nothing(
    tables: ScenarioTables, changes: list[SchemaChange], says: str
) -> None:
    table = tables(schema=SCHEMA)
    before = table.listing()

    with pytest.raises(InvalidInput, match=says):
        alter(table, *changes)

    assert table.listing() == before


@kinds
def test_a_required_column_with_a_default_is_added_to_a_table_without_rows(
    tables: ScenarioTables, kind: str
) -> None:
    """E-28: batches that leave it out are filled up, so that each file holds it."""
    table = tables(table_type=kind, schema=SCHEMA)
    more = [
        AddColumn("n", pa.int64(), False, -5),
        AddColumn("share", pa.float64(), False, 1),
        AddColumn("kind", pa.string(), False, "none"),
        AddColumn("is_new", pa.bool_(), False, False),
    ]

    alter(table, *more)
    write(table, {"id": 1, "city": "Oslo"})

    assert required(table) == ["n", "share", "kind", "is_new"]
    [row] = table.rows("n", "share", "kind", "is_new")
    assert row == {"n": -5, "share": 1.0, "kind": "none", "is_new": False}


@kinds
def test_a_required_column_is_not_added_where_rows_lack_it(
    tables: ScenarioTables, kind: str
) -> None:
    """hudi-rs and Apache Hudi fail at a file without it, whatever its default is."""
    table = tables(table_type=kind, schema=SCHEMA)
    write(table, {"id": 1, "city": "Oslo"})
    before = table.rows()

    with pytest.raises(InvalidInput, match="could not read the table") as refused:
        alter(table, AddColumn("n", pa.int64(), False, 5))

    assert refused.value.values["rows"] == 1
    assert table.rows() == before
    alter(table, AddColumn("n", pa.int64()), DropColumn("size"))


def test_narrow_rows_leave_out_what_has_a_default_so_none_is_added(tables: ScenarioTables) -> None:
    partial = {
        "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    }
    table = tables(table_type="MERGE_ON_READ", schema=SCHEMA, options=partial)

    with pytest.raises(InvalidInput, match="narrow row"):
        alter(table, AddColumn("n", pa.int64(), False, 5))


def test_sql_sets_and_drops_not_null_and_adds_with_a_default(tmp_path: Path) -> None:
    place = tmp_path / "sql"
    run_sql(
        f"CREATE TABLE t (id BIGINT, city STRING) USING hudi LOCATION '{place}' "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    named = {"t": open_table(place)}

    def run(statement: str) -> Any:
        return run_sql(statement, tables=named, options=DIRECT)

    run("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT -5")
    run(
        "ALTER TABLE t ADD COLUMNS "
        "(share DOUBLE NOT NULL DEFAULT 0.5, note STRING NOT NULL DEFAULT 'x')"
    )
    run("INSERT INTO t VALUES (1, NULL, 1, 1.0, 'y')")
    with pytest.raises(InvalidInput, match="hold null"):
        run("ALTER TABLE t ALTER COLUMN city SET NOT NULL")
    run("UPDATE t SET city = 'Oslo' WHERE id = 1")
    assert isinstance(run("ALTER TABLE t ALTER COLUMN city SET NOT NULL"), Committed)
    with pytest.raises(BadRows, match="column=city"):
        run("INSERT INTO t VALUES (2, NULL, 1, 1.0, 'y')")
    run("ALTER TABLE t ALTER COLUMN city DROP NOT NULL")
    run("INSERT INTO t VALUES (2, NULL, 1, 1.0, 'y')")

    schema = open_table(place).schema()
    assert schema is not None
    assert [one.name for one in schema if not one.nullable] == ["n", "share", "note"]
    with pytest.raises(InvalidInput, match="a number, a text, true or false"):
        run("ALTER TABLE t ADD COLUMN m INT NOT NULL DEFAULT 1 + 1")
    with pytest.raises(InvalidInput, match="nothing but its type"):
        run("ALTER TABLE t ADD COLUMN m INT COMMENT 'x'")
