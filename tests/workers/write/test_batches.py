"""Rows beyond the memory limit go through temporary files: the table is that of one batch."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from workers.concurrency.outcome import Committed
from workers.errors import BadRows, InvalidInput, StorageFailed
from workers.lakehouse import LakehouseTable, create_table
from workers.loading.options import load_options
from workers.loading.reader import open_rows
from workers.options.write_keys import DEAD_LETTER_KEY

ROWS = 9_000
BATCH_ROWS = 500
TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "part": pa.string(),
    "ts": pa.int64(),
    "n": pa.int64(),
    "c": pa.string(),
}
SCHEMA = pa.schema(TYPES)
OPTIONS = {"hoodie.write.markers.type": "direct", "sluice.write.memory": "1"}
PAYLOAD = "x" * 90
DELETED = pa.field("_hoodie_is_deleted", pa.bool_())
"""Nine thousand rows with this text are more than one megabyte."""


def rows(operation: str, *, with_deletes: bool = False) -> pa.Table:
    """Keys are there two and three times, far apart, some of them with equal ordering values."""
    is_single = operation in ("insert", "bulk_insert")
    numbers = [at if is_single else (at * 7) % (ROWS // 2) for at in range(ROWS)]
    table = pa.table(
        {
            "id": [f"key_{number:06d}" for number in numbers],
            "part": ["abc"[number % 3] for number in numbers],
            "ts": [number % 5 + at // 6000 for at, number in enumerate(numbers)],
            "n": list(range(ROWS)),
            "c": [f"{PAYLOAD}{at}" for at in range(ROWS)],
        },
        schema=SCHEMA,
    )
    if with_deletes:
        table = table.append_column(DELETED, pa.array([at % 11 == 0 for at in range(ROWS)]))
    return table


def rows_before() -> pa.Table:
    numbers = range(0, 2000, 3)
    return pa.table(
        {
            "id": [f"key_{number:06d}" for number in numbers],
            "part": ["abc"[number % 3] for number in numbers],
            "ts": [4] * len(numbers),
            "n": [-1] * len(numbers),
            "c": ["before"] * len(numbers),
        },
        schema=SCHEMA,
    )


def make(folder: Path, **more: Any) -> LakehouseTable:
    arguments = {"table_type": "COPY_ON_WRITE", "ordering": ["ts"], "options": {}} | more
    table = create_table(
        folder, name="t", schema=SCHEMA, record_key=["id"], partition_by=["part"], **arguments
    )
    table.write(rows_before(), options=OPTIONS)
    return table


def reader(table: pa.Table) -> pa.RecordBatchReader:
    return table.to_reader(max_chunksize=BATCH_ROWS)


def content(table: LakehouseTable) -> list[dict[str, Any]]:
    columns = ["id", "part", "ts", "n", "c"]
    rows = table.read().select(columns).sort_by([("id", "ascending"), ("n", "ascending")])
    stored: list[dict[str, Any]] = rows.to_pylist()
    return stored


def data_files(folder: Path) -> set[str]:
    return {
        path.name for path in folder.rglob("*") if path.is_file() and ".hoodie/" not in str(path)
    }


OPERATIONS = ["upsert", "insert", "bulk_insert", "delete", "insert_overwrite"]
CASES = [("COPY_ON_WRITE", "BUCKET", operation) for operation in OPERATIONS]
CASES += [("COPY_ON_WRITE", "BUCKET", "insert_overwrite_table")]
CASES += [("MERGE_ON_READ", "BUCKET", "upsert"), ("MERGE_ON_READ", "SIMPLE", "upsert")]
CASES += [("COPY_ON_WRITE", "SIMPLE", operation) for operation in OPERATIONS]
CASES += [("COPY_ON_WRITE", "GLOBAL_SIMPLE", "upsert")]


@pytest.mark.parametrize(("kind", "index", "operation"), CASES)
def test_operation_has_the_effect_of_one_batch(
    kind: str, index: str, operation: str, tmp_path: Path
) -> None:
    settings = {"table_type": kind, "options": {"hoodie.index.type": index}}
    whole, batched = make(tmp_path / "whole", **settings), make(tmp_path / "batched", **settings)
    data = rows(operation, with_deletes=operation == "upsert")

    first = whole.write(data, operation=operation, options=OPTIONS)
    second = batched.write(reader(data), operation=operation, options=OPTIONS)

    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert second.rows == first.rows
    assert content(batched) == content(whole)
    assert len(batched.timeline()) == len(whole.timeline())
    if index == "BUCKET" and operation != "delete":  # Files of a second part of the file groups.
        assert any("_1-0-0" in name for name in data_files(tmp_path / "batched"))
        assert not any("_1-0-0" in name for name in data_files(tmp_path / "whole"))


def test_refusal_in_the_last_batch_leaves_nothing_behind(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    before = data_files(tmp_path), content(table)
    data = rows("upsert")
    bad = pa.concat_tables([data, data.slice(0, 1).set_column(0, "id", pa.array([""]))])

    with pytest.raises(BadRows, match=rf"record key is empty.*first_rows=\[{ROWS}\]"):
        table.write(reader(bad), options=OPTIONS)

    assert (data_files(tmp_path), content(table)) == before
    assert all(instant.state == "completed" for instant in table.timeline())


def test_rows_of_a_file_are_refused_by_their_line(tmp_path: Path) -> None:
    table = make(tmp_path / "t", options={"hoodie.bucket.index.num.buckets": "4"})
    before = data_files(tmp_path / "t"), content(table)
    lines = [f"key_{at:06d},a,{at},{at},{PAYLOAD}" for at in range(ROWS)]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(["id,part,ts,n,c", *lines, "key_9,a,1,x,"]))
    source = open_rows([file], load_options({}), SCHEMA)

    with pytest.raises(InvalidInput, match=rf"line={ROWS + 2} column=n"):
        table.write(source, options=OPTIONS)

    assert (data_files(tmp_path / "t"), content(table)) == before

    file.write_text("\n".join(["id,part,ts,n,c", *lines]))
    outcome = table.write(open_rows([file], load_options({}), SCHEMA), options=OPTIONS)

    assert isinstance(outcome, Committed)
    assert outcome.rows == ROWS


def test_bad_rows_of_every_batch_become_dead_letters(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    data = rows("bulk_insert")
    ids = [("" if at % 3000 == 1 else name) for at, name in enumerate(data["id"].to_pylist())]
    data = data.set_column(0, "id", pa.array(ids))
    folder = tmp_path / "dead"

    options = OPTIONS | {DEAD_LETTER_KEY: str(folder)}
    outcome = table.write(reader(data), operation="upsert", options=options)

    assert isinstance(outcome, Committed)
    assert outcome.rows == ROWS - 3
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 3


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    before = data_files(tmp_path), content(table)

    with files_of_at_most(200_000), pytest.raises(StorageFailed, match="TMPDIR"):
        table.write(reader(rows("upsert")), options=OPTIONS)

    assert (data_files(tmp_path), content(table)) == before


def test_keys_move_between_partitions_as_in_one_batch(tmp_path: Path) -> None:
    groups = [{"name": "all", "ordering": ["ts"], "columns": ["n", "c"]}]
    options = {
        "hoodie.multistream.groups": json.dumps(groups),
        "hoodie.multistream.partition.update": "move",
    }
    whole = make(tmp_path / "whole", ordering=[], options=options)
    batched = make(tmp_path / "batched", ordering=[], options=options)
    data = rows("upsert").set_column(1, "part", pa.array(["d"] * ROWS))

    first = whole.write(data, options=OPTIONS)
    second = batched.write(reader(data), options=OPTIONS)

    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    left = [row for row in content(whole) if row["part"] != "d"]
    assert 0 < len(left) < rows_before().num_rows, "rows that are older move none"
    assert content(batched) == content(whole)


def test_a_late_integer_beyond_64_bits_stays_exact(tmp_path: Path) -> None:
    """The type of a new column is known before its values are."""
    table = make(tmp_path / "t")
    numbers = pa.array([*range(ROWS - 1), 2**64 - 1], pa.uint64())
    batch = rows("insert").append_column("big", numbers)

    outcome = table.write(reader(batch), operation="insert", options=OPTIONS)

    assert isinstance(outcome, Committed)
    stored = table.scan(["id", "big"]).to_arrow()
    assert stored.schema.field("big").type == pa.decimal128(20, 0)
    assert max(value for value in stored["big"].to_pylist() if value is not None) == 2**64 - 1
