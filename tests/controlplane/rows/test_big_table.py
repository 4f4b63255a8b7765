"""Opening a large table reads its first row group, not all of it, in less than 300 MB."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.rows.child import READERS
from controlplane.rows.jobs import Kind
from controlplane.sql.limits import SqlLimits
from tests.support.watched_storage import WatchedStorage
from workers import create_table
from workers.ports import system_ports
from workers.table.table import open_

MILLION = 1_000_000
PARTS = 10
GROUPED_ROWS = 600_000
PEAK_MB_MAX = 300
SMALL_FILES_BYTES = 256 * 1024
"""Timeline, properties, and the bytes that Arrow reads around a footer."""
FIRST_ROWS: dict[str, Any] = {
    "columns": None, "as_of": None, "after": 0, "order_by": "", "descending": False, "files": None,
}  # fmt: skip
COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.int64()),
    pa.field("reading", pa.float64()),
    pa.field("city", pa.string()),
    pa.field("part", pa.string()),
]
SCHEMA = pa.schema(COLUMNS)


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A million rows in each of ten partitions, in two file groups each."""
    place = tmp_path_factory.mktemp("big") / "t"
    table = create_table(
        place,
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    cities = pa.array(["Oslo", "Kiel", "Turku"])
    for part in range(PARTS):
        ids = np.arange(part * MILLION, (part + 1) * MILLION)
        table.write(
            pa.table(
                [
                    pa.array(ids),
                    pa.array(ids * 0.5),
                    cities.take(ids % 3),
                    pa.repeat(pa.scalar(f"p{part}"), MILLION),
                ],
                schema=SCHEMA,
            ),
            operation="bulk_insert",
        )
    return str(place)


def read(location: str, **job: Any) -> tuple[pa.Table, float]:
    """The rows of one read and the megabytes that its process used."""
    process = subprocess.Popen(
        [sys.executable, "-m", "controlplane.rows.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[3],
        env={"PATH": os.environ["PATH"], "ARROW_DEFAULT_MEMORY_POOL": "system"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    limits = {**asdict(SqlLimits(wall_s=250, cpu_s=250)), "location": location, "masked": []}
    process.stdin.write(
        json.dumps({**limits, "kind": "scan", "rows_max": 100, **FIRST_ROWS, **job}).encode()
    )
    process.stdin.close()
    said = process.stdout.read()
    process.wait()
    head, _, stream = said.partition(b"\n")
    with pa.ipc.open_stream(io.BytesIO(stream)) as reader:
        peak_mb = json.loads(head)["peak_bytes"] / 1_000_000
        return reader.read_all(), peak_mb


@dataclass(frozen=True, slots=True)
class GroupedTable:
    """A table of two file groups with several row groups each."""

    location: Path
    footers: tuple[pq.FileMetaData, ...]

    @property
    def row_group_bytes(self) -> int:
        """Return the stored size of the largest row group."""
        return max(
            sum(group.column(at).total_compressed_size for at in range(group.num_columns))
            for footer in self.footers
            for group in map(footer.row_group, range(footer.num_row_groups))
        )

    @property
    def footer_bytes(self) -> int:
        return sum(footer.serialized_size for footer in self.footers)


@pytest.fixture(scope="module")
def group_table(tmp_path_factory: pytest.TempPathFactory) -> GroupedTable:
    place = tmp_path_factory.mktemp("grouped") / "t"
    table = create_table(
        place,
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    ids = np.arange(GROUPED_ROWS)
    readings = np.random.default_rng(7).random(GROUPED_ROWS)
    columns = [ids, readings, np.full(GROUPED_ROWS, "Oslo"), ids.astype(str)]
    table.write(pa.table(list(map(pa.array, columns)), schema=SCHEMA), operation="bulk_insert")
    footers = tuple(map(pq.read_metadata, place.glob("*.parquet")))
    assert [footer.num_row_groups for footer in footers] == [19, 19]
    return GroupedTable(place, footers)


@pytest.mark.parametrize(
    ("kind", "where", "row_groups"),
    [("scan", None, 1), ("scan", "id = 654321", 2), ("plan", None, 0), ("plan", "reading > 2", 0)],
    ids=["the first rows", "one key", "columns and plan", "plan of a filter"],
)
def test_opening_a_table_of_many_row_groups_reads_few_of_them(
    kind: Kind, where: str | None, row_groups: int, group_table: GroupedTable
) -> None:
    calls: list[tuple[str, str]] = []
    storage = WatchedStorage(
        group_table.location, before=lambda call, path: calls.append((call, path))
    )
    table = open_(storage, system_ports())
    limits = {"rows_max": 100, "answer_bytes": SqlLimits().answer_bytes}
    job = {**FIRST_ROWS, **limits, "kind": kind, "where": where, "masked": []}
    before = count_bytes_read()

    head, _ = READERS[kind](table, job)

    read = count_bytes_read() - before
    most = (
        row_groups * group_table.row_group_bytes + 2 * group_table.footer_bytes + SMALL_FILES_BYTES
    )
    assert read < most, f"{read} bytes read, {head}"
    if row_groups == 1:
        assert len({path for call, path in calls if call == "open_data"}) == 1


def count_bytes_read() -> int:
    """Return the bytes that this thread has read from files so far."""
    lines = Path("/proc/thread-self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


@pytest.mark.soak
@pytest.mark.parametrize(
    "job",
    [
        {"where": None},
        {"where": "id = 7654321"},
        {"where": "city = 'Oslo' AND reading > 4000000.5"},
    ],
    ids=["the first rows", "one key", "a filter"],
)
def test_ten_million_rows_open_within_300_mb(location: str, job: dict[str, Any]) -> None:
    rows, peak_mb = read(location, **job)

    assert rows.num_rows == (1 if job["where"] == "id = 7654321" else 100)
    assert peak_mb < PEAK_MB_MAX
