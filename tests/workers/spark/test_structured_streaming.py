"""A Structured Streaming query writes one stream's columns beside others; a batch that is delivered
again after a crash changes nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.classic_environment import classic_environment
from tests.support.referee import assert_referee_agrees
from tests.support.streaming_process import NON_BLOCKING
from workers.lakehouse import LakehouseTable, create_table
from workers.spark.connect_server import ConnectServer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "seen_at": pa.int64(),
    "views": pa.int64(),
    "clicked_at": pa.int64(),
    "clicks": pa.int64(),
}
SCHEMA = pa.schema(_TYPES)
GROUPS = json.dumps(
    [
        {"name": "views", "ordering": ["seen_at"], "columns": ["views"]},
        {"name": "clicks", "ordering": ["clicked_at"], "columns": ["clicks"]},
    ]
)
PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    return create_table(
        tmp_path / "table",
        name="joined",
        schema=SCHEMA,
        record_key=["id"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "2", "hoodie.multistream.groups": GROUPS},
    )


def deliver(folder: Path, name: str, *rows: tuple[str, int, int]) -> None:
    folder.mkdir(exist_ok=True)
    columns = list(zip(*rows, strict=True))
    batch = pa.table({"id": columns[0], "seen_at": columns[1], "views": columns[2]})
    pq.write_table(batch, folder / name)


@pytest.fixture(params=["classic", "connect"])
def remote(request: pytest.FixtureRequest) -> str:
    if request.param == "classic":
        return "classic"
    server: ConnectServer = request.getfixturevalue("server")
    return server.remote


def run_queries(remote: str, location: str, *queries: Path) -> None:
    """Each a source and its checkpoint; all that is there, then the end."""
    program = [sys.executable, "-m", "tests.support.streaming_process"]
    ended = subprocess.run(
        [*program, remote, location, *map(str, queries)],
        cwd=PROJECT,
        env=classic_environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]


def rows_of(table: LakehouseTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.read().sort_by("id").to_pylist()
    return rows


def test_a_streaming_query_writes_its_columns_and_a_replay_changes_nothing(
    tmp_path: Path, table: LakehouseTable, remote: str
) -> None:
    clicks = pa.table({"id": ["a", "b"], "clicked_at": [7, 7], "clicks": [1, 2]})
    table.write(clicks, stream="clicks", options=NON_BLOCKING)
    early, late = tmp_path / "early", tmp_path / "late"
    deliver(early, "one.parquet", ("a", 5, 50), ("c", 5, 5))
    deliver(late, "two.parquet", ("a", 3, 30), ("b", 9, 90))
    lost = tmp_path / "a-checkpoint-that-was-lost"

    run_queries(
        remote, table.location, early, tmp_path / "first", late, tmp_path / "second", early, lost
    )

    assert rows_of(table) == [
        {"id": "a", "seen_at": 5, "views": 50, "clicked_at": 7, "clicks": 1},
        {"id": "b", "seen_at": 9, "views": 90, "clicked_at": 7, "clicks": 2},
        {"id": "c", "seen_at": 5, "views": 5, "clicked_at": None, "clicks": None},
    ]
    assert len(table.timeline()) == 5


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_SIMPLE"])
def test_a_streaming_query_looks_keys_up(tmp_path: Path, remote: str, index: str) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in ("id", "seen_at", "views")])
    table = create_table(
        tmp_path / "table",
        name="looked_up",
        schema=schema,
        record_key=["id"],
        ordering=["seen_at"],
        table_type="MERGE_ON_READ",
        options={"hoodie.index.type": index},
    )
    early, late = tmp_path / "early", tmp_path / "late"
    deliver(early, "one.parquet", ("a", 5, 50), ("c", 5, 5))
    deliver(late, "two.parquet", ("a", 3, 30), ("b", 9, 90), ("c", 6, 6))
    lost = tmp_path / "a-checkpoint-that-was-lost"

    run_queries(
        remote, table.location, early, tmp_path / "first", late, tmp_path / "second", early, lost
    )

    assert rows_of(table) == [
        {"id": "a", "seen_at": 5, "views": 50},
        {"id": "b", "seen_at": 9, "views": 90},
        {"id": "c", "seen_at": 6, "views": 6},
    ]
    assert_referee_agrees(table.location)
