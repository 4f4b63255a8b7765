"""Tables with column groups in front of Apache Hudi: compacted ones are read right as
read-optimized, merging their logs is refused rather than guessed, portable ones are read as they
are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer, PeerFailed
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table

pytestmark = pytest.mark.interop

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "seen_at": pa.int64(),
    "views": pa.int64(),
    "clicked_at": pa.int64(),
    "clicks": pa.int64(),
}
SCHEMA = pa.schema(_TYPES)
MARK = pa.field("_hoodie_is_deleted", pa.bool_())
GROUPS = [
    {"name": "views", "ordering": ["seen_at"], "columns": ["views"]},
    {"name": "clicks", "ordering": ["clicked_at"], "columns": ["clicks"]},
]
JOINED = [
    {"id": "both", "seen_at": 9, "views": 10, "clicked_at": 2, "clicks": 2},
    {"id": "half", "seen_at": 9, "views": None, "clicked_at": 1, "clicks": 7},
    {"id": "viewed", "seen_at": 1, "views": 5, "clicked_at": None, "clicks": None},
]
READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}


def made(location: Path, table_type: str, **options: str) -> LakehouseTable:
    table = create_table(
        location,
        name="joined",
        schema=SCHEMA,
        record_key=["id"],
        table_type=table_type,
        options={
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.multistream.groups": json.dumps(GROUPS),
            **options,
        },
    )
    is_mor = table_type == "MERGE_ON_READ"
    mode = "NON_BLOCKING_CONCURRENCY_CONTROL" if is_mor else "OPTIMISTIC_CONCURRENCY_CONTROL"
    for batch in (
        [_view("both", 9, 10), _view("viewed", 1, 5), _view("half", 3, 3), _view("gone", 1, 1)],
        [_click("both", 2, 2), _click("half", 1, 7), _view("both", 4, 4)],
        [_view("half", 9, None, deleted=True), _view("gone", 2, None, deleted=True)],
        [_view("half", 8, 8), _view("gone", 1, 9)],
    ):
        rows = pa.Table.from_pylist(batch, schema=SCHEMA.append(MARK))
        options = {"hoodie.write.markers.type": "direct", "hoodie.write.concurrency.mode": mode}
        assert isinstance(table.write(rows, options=options), Committed)
    return table


def _view(key: str, at: int, views: int | None, *, deleted: bool = False) -> dict[str, Any]:
    row = {"id": key, "seen_at": at, "views": views, "clicked_at": None, "clicks": None}
    return row | {"_hoodie_is_deleted": deleted}


def _click(key: str, at: int, clicks: int) -> dict[str, Any]:
    row = {"id": key, "seen_at": None, "views": None, "clicked_at": at, "clicks": clicks}
    return row | {"_hoodie_is_deleted": False}


def rows_of(snapshot: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = snapshot.select(SCHEMA.names).sort_by("id").to_pylist()
    return rows


def test_compacted_tables_are_read_alike(location: Path, peer: HudiPeer) -> None:
    table = made(location, "MERGE_ON_READ")
    assert rows_of(table.read()) == JOINED

    table.compact()

    assert rows_of(table.read(query="read_optimized")) == JOINED
    assert rows_of(peer.read(location, READ_OPTIMIZED)) == JOINED


def test_logs_are_refused_rather_than_guessed(location: Path, peer: HudiPeer) -> None:
    made(location, "MERGE_ON_READ")

    with pytest.raises(PeerFailed, match="merger"):
        peer.read(location)


def test_portable_tables_are_read_as_they_are(location: Path, peer: HudiPeer) -> None:
    table = made(location, "COPY_ON_WRITE", **{"hoodie.multistream.portable": "true"})

    assert rows_of(table.read()) == JOINED
    assert rows_of(peer.read(location)) == JOINED
