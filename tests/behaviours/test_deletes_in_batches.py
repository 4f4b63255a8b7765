"""`_hoodie_is_deleted`: rows of a batch that are deletes, on every table type and in every mode."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.behaviours.setups import Lake, reading, sampled
from tests.support.scenario_table import READINGS, Row, ScenarioTables
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.files.log_block import Deletes, ParquetData
from workers.files.log_file import read_log_file

MARK = "_hoodie_is_deleted"

pytestmark = sampled


def gone(row: Row) -> Row:
    return row | {MARK: True}


def write(lake: Lake, *rows: Row) -> Committed:
    outcome = lake.write_by_name(rows)
    assert isinstance(outcome, Committed), outcome
    return outcome


def test_marked_rows_delete_and_others_are_written(lake: Lake) -> None:
    lake.write(reading("a", 1, 1), reading("b", 1, 1), reading("c", 1, 1))

    write(lake, gone(reading("a", 2, None)), reading("b", 2, 2), reading("d", 2, 2))

    assert lake.values() == {"b": 2, "c": 1, "d": 2}
    assert lake.table.schema_columns() == READINGS.names


@pytest.mark.parametrize(("ordering", "stays"), [(4, True), (5, False), (6, False)])
def test_marked_row_competes_by_its_ordering_value(lake: Lake, ordering: int, stays: bool) -> None:
    lake.write(reading("a", 5, 1), reading("b", 5, 1))

    write(lake, gone(reading("a", ordering, None)))

    assert lake.values() == ({"a": 1, "b": 1} if stays else {"b": 1})


def test_in_one_batch_the_newest_of_row_and_delete_stands(lake: Lake) -> None:
    lake.write(reading("a", 1, 1), reading("b", 1, 1))

    write(
        lake,
        gone(reading("a", 3, None)),
        reading("a", 2, 2),
        reading("b", 4, 4),
        gone(reading("b", 3, None)),
    )

    assert lake.values() == {"b": 4}


def test_merge_on_read_writes_rows_then_deletes_into_one_log_file(lake: Lake) -> None:
    lake.write(reading("a", 1, 1))
    before = set(lake.table.data_files())

    outcome = write(lake, gone(reading("a", 2, None)))

    [new] = set(lake.table.data_files()) - before
    [stat] = lake.table.metadata(outcome.instant).stats
    assert (stat.num_deletes, stat.path) == (1, new)
    if stat.is_log:
        [block] = read_log_file(lake.table.storage, new)
        assert isinstance(block, Deletes)
        assert block.records[0].ordering == ("LongWrapper", 2)


def test_marked_row_without_ordering_value_is_refused(lake: Lake) -> None:
    lake.write(reading("a", 1, 1))

    with pytest.raises(InvalidInput, match=r"no ordering value.*first_rows=\[1\]"):
        write(lake, reading("b", 1, 1), gone(reading("a", None, None)))

    assert lake.values() == {"a": 1}


def test_mark_that_is_no_boolean_is_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="boolean"):
        write(lake, reading("b", 1, 1) | {MARK: "yes"})


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_without_ordering_a_marked_row_deletes_whatever_stands(
    tables: ScenarioTables, table_type: str
) -> None:
    table = tables(table_type=table_type, schema=READINGS)
    table.writer("w").upsert_and_commit(reading("a", 9, 1), reading("b", 9, 1))

    table.writer("w").upsert_and_commit(gone(reading("a", None, None)), reading("c", 1, 1))

    assert [row["id"] for row in table.rows()] == ["b", "c"]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_table_that_has_the_column_keeps_marked_rows_in_its_logs(
    tables: ScenarioTables, table_type: str
) -> None:
    """As Hudi's own writers leave them: both foreign readers honour the column."""
    schema = READINGS.append(pa.field(MARK, pa.bool_()))
    table = tables(table_type=table_type, schema=schema, ordering=["ts"])
    table.writer("w").upsert_and_commit(reading("a", 1, 1), reading("b", 1, 1))

    outcome = table.writer("w").upsert_and_commit(gone(reading("a", 2, 2)))

    assert [row["id"] for row in table.rows()] == ["b"]
    for stat in table.metadata(outcome.instant).stats:
        blocks: list[Any] = read_log_file(table.storage, stat.path) if stat.is_log else []
        assert all(isinstance(block, ParquetData) for block in blocks)
