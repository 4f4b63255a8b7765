"""Options of a write: codecs, sort modes, what happens to known keys, retries."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.behaviours.setups import reading
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.errors import InvalidInput
from workers.files.log_block import AvroData, ParquetData
from workers.files.log_file import read_log_file
from workers.files.meta_columns import RECORD_KEY
from workers.lakehouse import LakehouseTable
from workers.schema.alter import RenameColumn
from workers.write import row_validation
from workers.write.prepare import prepare

POLICY = "hoodie.datasource.insert.dup.policy"
COMBINE = "hoodie.combine.before.insert"
SORT_MODE = "hoodie.bulkinsert.sort.mode"
SORT_COLUMNS = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"
LOG_FORMAT = "hoodie.logfile.data.block.format"
CODEC = "hoodie.parquet.compression.codec"
RETRIES = "hoodie.write.num.retries.on.conflict.failures"


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    return tables(table_type=request.param, schema=READINGS, ordering=["ts"])


def write(table: ScenarioTable, *rows: Row, operation: str = "upsert", **options: str) -> Committed:
    return write_with(table, rows, operation, options)


def write_with(
    table: ScenarioTable, rows: tuple[Row, ...], operation: str, options: dict[str, str]
) -> Committed:
    given = {"hoodie.write.markers.type": "direct"} | options
    outcome = table.lakehouse.write(table.batch(rows), operation=operation, options=given)
    assert isinstance(outcome, Committed), outcome
    return outcome


def values(table: ScenarioTable) -> dict[str, int | None]:
    return {row["id"]: row["value"] for row in table.rows()}


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_dropped_duplicates_leave_the_standing_rows(table: ScenarioTable, operation: str) -> None:
    write(table, reading("a", 1, 1), reading("b", 1, 1))
    write(table, reading("b", 2, 2))

    rows = (reading("a", 9, 9), reading("b", 9, 9), reading("c", 9, 9), reading("c", 8, 8))
    write_with(table, rows, operation, {POLICY: "drop"})

    assert values(table) == {"a": 1, "b": 2, "c": 9}


def test_failing_duplicates_are_named_and_nothing_is_written(table: ScenarioTable) -> None:
    write(table, reading("a", 1, 1))
    before = table.data_files()

    with pytest.raises(InvalidInput, match=r"in the table already.*first_keys=\['a'\]"):
        write_with(table, (reading("a", 2, 2), reading("b", 2, 2)), "insert", {POLICY: "fail"})

    assert values(table) == {"a": 1}
    assert table.data_files() == before


def test_deleted_key_is_no_duplicate(table: ScenarioTable) -> None:
    write(table, reading("a", 1, 1), reading("b", 1, 1))
    write(table, reading("a", 1, 1), operation="delete")

    write_with(table, (reading("a", 2, 2),), "insert", {POLICY: "fail"})

    assert values(table) == {"a": 2, "b": 1}


@pytest.mark.parametrize(("combine", "fails"), [("true", False), ("false", True)])
def test_duplicates_within_a_batch(table: ScenarioTable, combine: str, fails: bool) -> None:
    rows = (reading("a", 1, 1), reading("a", 2, 2))
    options = {POLICY: "fail", COMBINE: combine}

    if fails:
        with pytest.raises(InvalidInput, match="doubled in the batch"):
            write_with(table, rows, "insert", options)
        return
    write_with(table, rows, "insert", options)
    assert values(table) == {"a": 2}


@pytest.mark.parametrize(
    ("options", "column"),
    [
        ({SORT_MODE: "PARTITION_SORT"}, RECORD_KEY),
        ({SORT_MODE: "GLOBAL_SORT"}, RECORD_KEY),
        ({SORT_MODE: "GLOBAL_SORT", SORT_COLUMNS: "value,id"}, "value"),
    ],
)
def test_bulk_insert_sorts_inside_its_files(
    table: ScenarioTable, options: dict[str, str], column: str
) -> None:
    rows = tuple(reading(f"k{n * 7 % 40:02}", n, n * 13 % 40) for n in range(40))

    write_with(table, rows, "bulk_insert", options)

    for path in table.data_files():
        rows_of_file = pq.read_table(Path(table.location) / path)
        assert rows_of_file == rows_of_file.sort_by(column)
    assert len(table.rows()) == 40


def test_sort_columns_that_the_batch_lacks_are_refused(table: ScenarioTable) -> None:
    with pytest.raises(InvalidInput, match="nope"):
        write_with(table, (reading("a", 1, 1),), "bulk_insert", {SORT_COLUMNS: "nope"})


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "lz4", "brotli", "uncompressed"])
def test_codec_of_base_files_and_log_blocks(tables: ScenarioTables, codec: str) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    write_with(table, (reading("a", 1, 1),), "upsert", {CODEC: codec.upper()})

    write_with(table, (reading("a", 2, 2),), "upsert", {CODEC: codec})

    [base] = [path for path in table.data_files() if path.endswith(".parquet")]
    column = pq.ParquetFile(Path(table.location) / base).metadata.row_group(0).column(0)
    assert column.compression == codec.upper()
    assert values(table) == {"a": 2}
    if codec in ("lz4", "brotli"):
        table.excuse_referee("the hudi-rs wheel may leave these codecs out")


def _compact(table: LakehouseTable) -> None:
    table.compact(options={CODEC: "gzip"})


def _cluster(table: LakehouseTable) -> None:
    table.cluster(["value"], options={CODEC: "gzip"})


def _rename(table: LakehouseTable) -> None:
    options = {CODEC: "gzip", "hoodie.write.markers.type": "direct"}
    table.alter(RenameColumn("note", "remark"), options=options)


@pytest.mark.parametrize("service", [_compact, _cluster, _rename])
def test_codec_of_rewritten_files(
    tables: ScenarioTables, service: Callable[[LakehouseTable], None]
) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    write(table, reading("a", 1, 1))
    write(table, reading("a", 2, 2))
    before = set(table.data_files())

    service(table.lakehouse)

    [base] = [path for path in table.data_files() if path not in before]
    column = pq.ParquetFile(Path(table.location) / base).metadata.row_group(0).column(0)
    assert column.compression == "GZIP"
    assert values(table) == {"a": 2}


@pytest.mark.parametrize(("name", "kind"), [("avro", AvroData), ("PARQUET", ParquetData)])
def test_format_of_log_blocks(tables: ScenarioTables, name: str, kind: type) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    write(table, reading("a", 1, 1), reading("b", 1, 1))

    write_with(table, (reading("a", 2, None),), "upsert", {LOG_FORMAT: name})

    [log] = [path for path in table.data_files() if not path.endswith(".parquet")]
    [block] = read_log_file(table.storage, log)
    assert isinstance(block, kind)
    assert values(table) == {"a": None, "b": 1}


def test_unknown_codec_is_refused(table: ScenarioTable) -> None:
    with pytest.raises(InvalidInput, match="allowed"):
        write_with(table, (reading("a", 1, 1),), "upsert", {CODEC: "rar"})


@pytest.mark.parametrize(("retries", "wins"), [("0", False), ("1", True)])
def test_conflicting_write_is_done_again_as_often_as_asked(
    table: ScenarioTable, monkeypatch: pytest.MonkeyPatch, retries: str, wins: bool
) -> None:
    """A rival commits to the same file group while our first attempt writes its files."""
    write(table, reading("a", 1, 1))
    rivals = iter([reading("b", 1, 7)])

    def interrupted(*given: object) -> pa.Table:
        for rival in rivals:
            table.writer("rival").upsert_and_commit(rival)
        return prepare(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(row_validation, "prepare", interrupted)
    options = {
        RETRIES: retries,
        "hoodie.write.markers.type": "direct",
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    }
    # Every bucket, so that the two must meet.
    rows = [reading(f"k{n}", 1, n) for n in range(60)]
    outcome: CommitOutcome = table.lakehouse.write(table.batch(rows), options=options)

    assert isinstance(outcome, Committed if wins else Conflicted)
    assert len(table.rows()) == (62 if wins else 2)
    assert all(later.requested_at > one.requested_at for one, later in pairwise(table.instants()))
