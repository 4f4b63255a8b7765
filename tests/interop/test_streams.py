"""Streams that write their own columns of one row: Apache Hudi reads the joined rows, compacts them
and upserts beside the streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table
from workers.options.write_options import write_options
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest

pytestmark = pytest.mark.interop

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "views": pa.int64(),
    "clicks": pa.int64(),
}
SCHEMA = pa.schema(_TYPES)
JOINED = [
    {"id": "both", "ts": 1, "views": 10, "clicks": 2},
    {"id": "clicked", "ts": 1, "views": None, "clicks": 3},
    {"id": "viewed", "ts": 1, "views": 5, "clicks": None},
]


def _stream(table: LakehouseTable, name: str, rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([SCHEMA.field(column) for column in rows[0]])
    options = {
        "hoodie.write.markers.type": "direct",
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    }
    batch = pa.Table.from_pylist(rows, schema=schema)
    assert isinstance(table.write(batch, stream=name, options=options), Committed)


@pytest.mark.parametrize("is_compacted", [False, True], ids=["logs", "compacted"])
def test_joined_rows_are_the_same_everywhere(
    is_compacted: bool, location: Path, peer: HudiPeer
) -> None:
    table = create_table(
        location,
        name="joined",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        },
    )
    _stream(
        table,
        "views",
        [{"id": "both", "ts": 1, "views": 10}, {"id": "viewed", "ts": 1, "views": 5}],
    )
    if is_compacted:
        request = ServiceRequest(by="interop", reason="test")
        options = write_options({"hoodie.write.markers.type": "direct"})
        get_service("compaction").run(table.table, request, options)
    _stream(
        table,
        "clicks",
        [{"id": "both", "ts": 1, "clicks": 2}, {"id": "clicked", "ts": 1, "clicks": 3}],
    )

    assert table.read().sort_by("id").to_pylist() == JOINED
    assert peer.read(location).select(SCHEMA.names).sort_by("id").to_pylist() == JOINED
