"""Partition values whose directories lie inside each other, or are one and the same."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.referee import assert_referee_agrees
from tests.support.scenario_table import schema_of
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.files.partition import METADATA_NAME
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.write_options import write_options
from workers.sql.run import run_sql
from workers.write.client import Transaction, WriteClient
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.request import WriteRequest
from workers.write.status import TaskIds, WriteStatus

SCHEMA = schema_of(id=pa.string(), dir=pa.string(), n=pa.int64())
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
OUTER, INNER, APART = "2023/12", "2023/12/31", "2024/01/15"
NAMES_BOTH = f"urlencode=true.* outer={OUTER} inner={INNER}"
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}


def made(
    where: Path, table_type: str = "COPY_ON_WRITE", options: dict[str, str] | None = None
) -> LakehouseTable:
    return create_table(
        where / "table",
        name="nested",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["dir"],
        table_type=table_type,
        options=options or {},
    )


def batch(*places: str | None, first: int = 0) -> pa.Table:
    rows: list[dict[str, Any]] = [
        {"id": f"k{first + n}", "dir": place, "n": n} for n, place in enumerate(places)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def places(table: LakehouseTable) -> list[str]:
    """The partition values as readers see them, once hudi-rs sees the same rows."""
    assert_referee_agrees(table.table.storage.location)
    read: list[Any] = open_table(table.table.storage.location).read().column("dir").to_pylist()
    return sorted(read, key=str)


def begun(table: LakehouseTable, place: str, first: int) -> tuple[Transaction, list[WriteStatus]]:
    """A write that has written its files and not committed."""
    rows = batch(place, first=first)
    transaction = WriteClient(table.table, write_options({})).begin(rows.schema, WriteRequest())
    prepared = prepare(transaction.context, rows)
    storage = table.table.storage
    return transaction, write_file_groups(transaction.context, prepared, TaskIds(), storage)


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("order", [(OUTER, APART, INNER), (INNER, OUTER)])
def test_nested_values_of_one_batch_are_refused(
    tmp_path: Path, table_type: str, order: tuple[str, ...]
) -> None:
    table = made(tmp_path, table_type)

    with pytest.raises(InvalidInput, match=NAMES_BOTH):
        table.write(batch(*order))

    assert places(table) == []


def test_rows_of_nested_values_are_dead_letters_where_asked(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write(batch(OUTER))
    letters = {"sluice.dead.letter.path": str(tmp_path / "letters")}

    outcome = table.write(batch(INNER, APART, f"{APART}/6", "2023", first=1), options=letters)

    assert isinstance(outcome, Committed)
    assert outcome.rows == 1
    assert places(table) == [OUTER, APART]
    assert list((tmp_path / "letters").rglob("*.parquet"))


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert", "insert_overwrite"])
@pytest.mark.parametrize(("first", "second"), [(OUTER, INNER), (INNER, OUTER)])
def test_values_that_nest_with_a_standing_partition_are_refused(
    tmp_path: Path, operation: str, first: str, second: str
) -> None:
    options = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    table = made(tmp_path, options=options)
    table.write(batch(first, APART))

    with pytest.raises(InvalidInput, match=f"outer=dir={OUTER} inner=dir={INNER}"):
        table.write(batch(second, first=5), operation=operation)

    assert places(table) == sorted([first, APART])


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize(("first", "second"), [(OUTER, INNER), (INNER, OUTER)])
def test_the_second_of_two_concurrent_writers_is_refused(
    tmp_path: Path, table_type: str, first: str, second: str
) -> None:
    table = made(tmp_path, table_type)
    loser, lost_files = begun(table, second, first=1)
    winner, files = begun(table, first, first=2)

    assert isinstance(winner.commit(files), Committed)
    assert table.read().column("dir").to_pylist() == [first]
    with pytest.raises(InvalidInput, match=NAMES_BOTH):
        loser.commit(lost_files)

    assert places(table) == [first]


@pytest.mark.parametrize(("first", "second"), [(OUTER, INNER), (INNER, OUTER)])
def test_a_partition_that_was_rolled_back_is_in_nobodys_way(
    tmp_path: Path, first: str, second: str
) -> None:
    table = made(tmp_path)
    table.write(batch(APART))
    wrong = table.write(batch(first, first=3))
    assert isinstance(wrong, Committed)
    table.rollback(wrong.instant, dry_run=False)

    assert isinstance(table.write(batch(second, first=5)), Committed)

    assert places(table) == sorted([second, APART])


@pytest.mark.parametrize(("first", "second"), [(OUTER, INNER), (INNER, OUTER)])
def test_a_rival_that_was_rolled_back_meanwhile_hides_nothing(
    tmp_path: Path, first: str, second: str
) -> None:
    table = made(tmp_path)
    pending, files = begun(table, second, first=1)
    wrong = table.write(batch(first, first=3))
    assert isinstance(wrong, Committed)
    table.rollback(wrong.instant, dry_run=False)

    assert isinstance(pending.commit(files), Committed)

    assert places(table) == [second]


def test_a_known_partition_that_another_writer_took_over_is_refused(tmp_path: Path) -> None:
    """Its commit is rolled back meanwhile, so another writer may commit inside its directory."""
    table = made(tmp_path)
    wrong = table.write(batch(OUTER))
    assert isinstance(wrong, Committed)
    pending, files = begun(table, OUTER, first=4)
    table.rollback(wrong.instant, dry_run=False)
    assert isinstance(table.write(batch(INNER, first=5)), Committed)

    with suppress(InvalidInput):
        assert not isinstance(pending.commit(files), Committed)

    assert places(table) == [INNER]


def test_an_undecided_write_leaves_no_partition_metadata(tmp_path: Path) -> None:
    """It would hide what others commit below it meanwhile."""
    table = made(tmp_path)
    pending, _ = begun(table, OUTER, first=1)

    assert not list(Path(table.table.storage.location, "2023").rglob(METADATA_NAME))

    assert isinstance(table.write(batch(INNER)), Committed)
    pending.abort("not wanted")
    assert places(table) == [INNER]


def test_a_row_that_moves_into_a_nested_partition_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, options=GLOBAL)
    table.write(batch(OUTER, APART))

    with pytest.raises(InvalidInput, match=NAMES_BOTH):
        table.write(batch(INNER, first=1))

    assert places(table) == [OUTER, APART]


def test_slashes_that_do_not_nest_are_taken(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write(batch("2023/12/30", "2023/12/31", "2024/01/01", "2025", "20"))
    table.write(batch("2023/12/29", "2023/1", "202", first=5))

    assert len(places(table)) == 8


def test_encoded_values_do_not_nest(tmp_path: Path) -> None:
    table = made(tmp_path, options=ENCODED)
    table.write(batch(OUTER, INNER))
    table.write(batch("2023", first=5))

    assert places(table) == ["2023", OUTER, INNER]
    table.delete_partition([{"dir": OUTER}])
    assert places(table) == ["2023", INNER]


def test_the_word_for_null_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, options=ENCODED)
    with pytest.raises(InvalidInput, match="column=dir value=__HIVE_DEFAULT_PARTITION__"):
        table.write(batch("__HIVE_DEFAULT_PARTITION__"))


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize(("first", "second"), [(None, ""), ("", None)])
def test_a_null_and_an_empty_text_do_not_replace_each_other(
    tmp_path: Path, table_type: str, first: str | None, second: str | None
) -> None:
    table = made(tmp_path, table_type)
    table.write(batch(first, APART))
    with pytest.raises(InvalidInput, match=r"replaced=.* stands="):
        table.write(batch(second, first=5), operation="insert_overwrite")
    with pytest.raises(InvalidInput, match=r"replaced=.* stands="):
        table.delete_partition([{"dir": second}])
    table.write(batch(second, first=5))
    with pytest.raises(InvalidInput, match=r"replaced=.* stands="):
        table.delete_partition([{"dir": first}])
    assert places(table) == sorted([first, second, APART], key=str)

    table.delete(predicate="dir = ''")
    table.write(batch(None, first=7), operation="insert_overwrite")
    assert places(table) == [APART, None]
    table.delete_partition([{"dir": None}])
    assert places(table) == [APART]


def test_values_of_several_columns_cannot_share_a_directory(tmp_path: Path) -> None:
    schema = schema_of(a=pa.string(), b=pa.string(), id=pa.string())
    table = create_table(
        tmp_path / "two", name="two", schema=schema, record_key=["id"], partition_by=["a", "b"]
    )

    def rows(*values: tuple[str, str]) -> pa.Table:
        listed = [{"a": a, "b": b, "id": f"{a}+{b}"} for a, b in values]
        return pa.Table.from_pylist(listed, schema=schema)

    table.write(rows(("x", "2023/12/31"), ("y", "z")))
    with pytest.raises(InvalidInput, match=r"urlencode=true.* column=a value=x/2023"):
        table.write(rows(("x/2023", "12/31")))
    with pytest.raises(InvalidInput, match="column=a value=x/2023"):
        table.delete_partition([{"a": "x/2023", "b": "12/31"}])
    with pytest.raises(InvalidInput, match="outer=x/2023 inner=x/2023/12/31"):
        table.write(rows(("x", "2023")))

    assert table.read().num_rows == 2


def test_statements_and_streams_are_refused_as_well(tmp_path: Path) -> None:
    table = made(tmp_path, "MERGE_ON_READ")
    table.write(batch(OUTER))
    statement = f"INSERT INTO nested VALUES ('k9', '{INNER}', 1)"
    with pytest.raises(InvalidInput, match=NAMES_BOTH):
        run_sql(statement, tables={"nested": table})

    groups = [
        {"name": "one", "ordering": ["t"], "columns": ["n"]},
        {"name": "two", "ordering": ["u"], "columns": ["m"]},
    ]
    numbers = dict.fromkeys("ntmu", pa.int64())
    grouped = create_table(
        tmp_path / "streams",
        name="grouped",
        schema=schema_of(id=pa.string(), dir=pa.string(), **numbers),
        record_key=["id"],
        partition_by=["dir"],
        table_type="MERGE_ON_READ",
        options={"hoodie.multistream.groups": json.dumps(groups)},
    )
    first, second = ({"id": f"k{n}", "dir": one} for n, one in enumerate([INNER, OUTER]))
    grouped.write(pa.Table.from_pylist([first | {"n": 1, "t": 1}]), stream="one")
    with pytest.raises(InvalidInput, match=NAMES_BOTH):
        grouped.write(pa.Table.from_pylist([second | {"m": 1, "u": 1}]), stream="two")
