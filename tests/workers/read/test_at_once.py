"""Streams that are read beside each other come one after the other, and are left alone when their
reader is.
"""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.scenario_table import schema_of
from tests.support.watched_storage import WatchedStorage
from workers.errors import StorageFailed
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.read.at_once import in_order
from workers.read.statistics import ColumnBounds
from workers.read.unprovable import may_be_true
from workers.read.verdicts import Verdicts

DIRECT = {"hoodie.write.markers.type": "direct"}


def a_table(where: Path, kind: str = "COPY_ON_WRITE") -> LakehouseTable:
    table = create_table(
        where / "t", name="t", schema=pa.schema([("id", pa.int64()), ("n", pa.int64())]),
        record_key=["id"], ordering=["n"], table_type=kind,
        options={"hoodie.bucket.index.num.buckets": "4"},
    )  # fmt: skip
    ids = list(range(400))
    table.write(pa.table({"id": ids, "n": ids}), options=DIRECT)
    return table


def numbers(start: int, *, fails: bool = False) -> Iterator[pa.RecordBatch]:
    for number in range(start, start + 3):
        yield pa.record_batch({"n": [number]})
    if fails:
        raise StorageFailed("it broke", at=start)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_batches_come_in_the_order_of_their_streams(threads: int) -> None:
    batches = in_order(numbers, range(0, 30, 3), threads=threads, ahead_bytes=1)

    assert [one.column(0)[0].as_py() for one in batches] == list(range(30))


def test_the_first_batch_is_given_before_the_next_one_is_there() -> None:
    is_wanted = Event()

    def slow(start: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [start]})
        assert is_wanted.wait(60)
        yield pa.record_batch({"n": [start + 1]})

    batches = in_order(slow, [0, 2], threads=2, ahead_bytes=1 << 20)
    first = next(batches)
    is_wanted.set()

    assert [one.column(0)[0].as_py() for one in (first, *batches)] == [0, 1, 2, 3]


def test_what_was_given_is_kept_by_nobody() -> None:
    batches = in_order(numbers, [0, 3], threads=2, ahead_bytes=1 << 20)
    given = [weakref.ref(next(batches)) for _ in range(2)]

    assert [one() for one in given] == [None, None]
    assert sum(1 for _ in batches) == 4


def test_an_error_is_raised_in_its_turn_and_nothing_is_opened_after_it() -> None:
    opened: list[int] = []

    def broken(start: int) -> Iterator[pa.RecordBatch]:
        opened.append(start)
        return numbers(start, fails=start == 3)

    batches = in_order(broken, range(0, 300, 3), threads=2)
    seen: list[int] = []
    with pytest.raises(StorageFailed, match="it broke"):
        seen.extend(one.column(0)[0].as_py() for one in batches)

    assert seen[:3] == [0, 1, 2]
    assert len(opened) <= 3


def test_the_first_batch_comes_before_the_last_file_is_opened(tmp_path: Path) -> None:
    location = a_table(tmp_path).location
    opened: list[str] = []
    watched = WatchedStorage(Path(location), before=lambda call, path: opened.append(path))
    scan = replace(open_table(location, storage=watched).scan(), threads=2)
    opened.clear()

    reader = scan.to_batches()
    assert reader.read_next_batch().num_rows

    assert len({path for path in opened if path.endswith(".parquet")}) <= 3


@pytest.mark.slow
def test_a_process_ends_with_a_reader_that_is_half_read(tmp_path: Path) -> None:
    program = (
        "import sys, dataclasses; from workers.lakehouse import open_table; "
        "scan = dataclasses.replace(open_table(sys.argv[1]).scan(), threads=3); "
        "reader = scan.to_batches(); print(reader.read_next_batch().num_rows > 0)"
    )
    command = [sys.executable, "-c", program, a_table(tmp_path).location]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_link_in_the_place_of_a_base_file_is_not_followed(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    path, *_ = sorted(Path(table.location).rglob("*.parquet"))
    elsewhere = tmp_path / "elsewhere.parquet"
    scan = table.scan()
    path.rename(elsewhere)
    path.symlink_to(elsewhere)

    with pytest.raises(StorageFailed):
        scan.to_arrow()


def test_what_is_remembered_of_logs_changes_no_answer(tmp_path: Path) -> None:
    table = a_table(tmp_path, "MERGE_ON_READ")
    table.write(pa.table({"id": [1, 2, 500], "n": [1_000, 0, 7]}), options=DIRECT)
    verdicts = table.table.storage.cache.of_kind(Verdicts)

    first = table.read().sort_by("id")
    again = table.read().sort_by("id")
    table.write(pa.table({"id": [1], "n": [2_000]}), options=DIRECT)

    assert again == first
    assert first.filter(pc.field("id") < 3).column("n").to_pylist() == [0, 1_000, 2]
    assert table.read(where="id = 1").column("n").to_pylist() == [2_000]
    verdicts.forget()
    assert table.read(where="id = 1").column("n").to_pylist() == [2_000]


def test_an_expression_is_ruled_out_by_bounds_and_nulls_alone() -> None:
    schema = schema_of(a=pa.int64(), x=pa.float64())
    known = [
        {"a": ColumnBounds(0, 9, has_nulls=False)},
        {"a": ColumnBounds(10, 19)},
        {"a": ColumnBounds(has_values=False)},
        {"x": ColumnBounds(1.0, 1.0, has_nulls=False)},
    ]
    a, x = pc.field("a"), pc.field("x")

    assert may_be_true(a < 5, schema, known) == [0, 3]
    assert may_be_true(a.is_null(), schema, known) == [1, 2, 3]
    assert may_be_true((a > 12) & a.is_valid(), schema, known) == [1, 3]
    assert may_be_true(~(x <= 1.0), schema, known) == [0, 1, 2, 3]  # NaN may be there.
