"""Tables in a bucket of a real S3 server, and what holds of each."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from bench.support.s3_server import hudi_rs_options
from tests.support.invariants import assert_table_is_sound
from tests.support.referee import referee_table
from tests.support.storages import use_bucket
from workers import create_table
from workers.lakehouse import LakehouseTable

TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "city": pa.string(),
    "day": pa.string(),
}
SCHEMA = pa.schema(TYPES)
OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
}
NON_BLOCKING = OPTIMISTIC | {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
MakeTable = Callable[[str], LakehouseTable]


@pytest.fixture
def location(monkeypatch: pytest.MonkeyPatch) -> str:
    return use_bucket(monkeypatch)


@pytest.fixture
def make(location: str) -> MakeTable:
    def made(table_type: str) -> LakehouseTable:
        return create_table(
            location,
            name="t",
            schema=SCHEMA,
            record_key=["id"],
            partition_by=["day"],
            ordering=["ts"],
            table_type=table_type,
            options={"hoodie.bucket.index.num.buckets": "2"},
        )

    return made


def cities(table: pa.Table) -> list[str]:
    return sorted(str(city) for city in table["city"].to_pylist())


def assert_agreed(table: LakehouseTable) -> None:
    """hudi-rs reads the same rows from the same bucket, and what holds of every table holds."""
    assert cities(referee_table(table.location, hudi_rs_options())) == cities(table.read())
    assert_table_is_sound(table.location)
