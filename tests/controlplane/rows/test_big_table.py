"""A table of ten million rows opens in less than 300 MB of the process that reads."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from controlplane.sql.limits import SqlLimits
from workers import create_table

MILLION = 1_000_000
PARTS = 10
PEAK_MB_MAX = 300
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
    process.stdin.write(json.dumps({**limits, "kind": "scan", "rows_max": 100, **job}).encode())
    process.stdin.close()
    said = process.stdout.read()
    process.wait()
    head, _, stream = said.partition(b"\n")
    with pa.ipc.open_stream(io.BytesIO(stream)) as reader:
        peak_mb = json.loads(head)["peak_bytes"] / 1_000_000
        return reader.read_all(), peak_mb


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
    rows, peak_mb = read(location, columns=None, as_of=None, after=0, **job)

    assert rows.num_rows == (1 if job["where"] == "id = 7654321" else 100)
    assert peak_mb < PEAK_MB_MAX
