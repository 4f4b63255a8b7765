"""What an upsert into a bucket asks of it: an S3 server on this machine, 20 ms before each answer.

Requests are counted by the server. A write has some of its own and some for each file group; the
difference between a write of many groups and one of few tells the second.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.lines import Goal, Line
from bench.support.s3_server import BUCKET, shared_server
from workers.clock import SystemClock
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table
from workers.ports import RandomIds

LATENCY_MS: Final = 20
_FEW, _MANY = 16, 64
_PARTITIONS = 4
_ROWS = 10_000
_ROUNDS = 3
_OPTIONS = {"hoodie.write.markers.type": "direct"}
_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "text": pa.string(),
    "part": pa.string(),
}
_KINDS = {"copy-on-write": "COPY_ON_WRITE", "merge-on-read": "MERGE_ON_READ"}
_GOALS = {
    "copy-on-write": Goal(4, " requests", is_least=False),
    "merge-on-read": Goal(3, " requests", is_least=False),
}
"""A marker, the new file and, where one is rewritten, the old one; and room for one more."""


def stores(_folder: Path) -> Iterator[Line]:
    """The requests of a file group, and how long a write takes."""
    server = shared_server()
    os.environ |= server.environment
    for name, table_type in _KINDS.items():
        server.order(latency_ms=LATENCY_MS, faults=[])
        few, many = (_upserts(table_type, groups) for groups in (_FEW, _MANY))
        yield Line(
            f"upsert in a bucket, {LATENCY_MS} ms a request, {name}, of a file group",
            "(a limit)",
            many[0],
            None,
            (sum(many[1].values()) - sum(few[1].values())) / (_MANY - _FEW),
            _GOALS[name],
            {
                "seconds": {_FEW: round(few[0], 2), _MANY: round(many[0], 2)},
                "requests": {_FEW: few[1], _MANY: many[1]},
            },
        )


def _upserts(table_type: str, groups: int) -> tuple[float, dict[str, int]]:
    """Median seconds and the requests of one, by kind, of upserts that change every file group."""
    server, clock, table = shared_server(), SystemClock(), _made(table_type, groups)
    _write(table, 0)
    seconds: list[float] = []
    counted: dict[str, int] = {}
    for turn in range(1, _ROUNDS + 1):
        server.order(reset=True)
        began_s = clock.monotonic_s()
        _write(table, turn)
        seconds.append(clock.monotonic_s() - began_s)
        counted = dict(sorted(server.order(reset=True)["counts"].items()))
    return statistics.median(seconds), counted


def _write(table: LakehouseTable, ts: int) -> None:
    numbers = range(_ROWS)
    columns: dict[str, Any] = {
        "id": [f"k{number}" for number in numbers],
        "ts": [ts] * _ROWS,
        "text": [f"{ts} of {number}" for number in numbers],
        "part": [f"p{number % _PARTITIONS}" for number in numbers],
    }
    rows = pa.table(columns, schema=pa.schema(_TYPES))
    outcome = table.write(rows, options=_OPTIONS)
    assert isinstance(outcome, Committed), outcome


def _made(table_type: str, groups: int) -> LakehouseTable:
    return create_table(
        f"s3://{BUCKET}/bench/{RandomIds().token()}",
        name="t",
        schema=pa.schema(_TYPES),
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        table_type=table_type,
        options={"hoodie.bucket.index.num.buckets": str(groups // _PARTITIONS)},
    )
