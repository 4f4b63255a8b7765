"""Apache Hudi writes with its defaults, which switch its metadata table on, into a table that is
open here: every path of ours is refused, and Hudi goes on reading right.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer, write_options
from workers.concurrency.outcome import Committed
from workers.errors import UnsupportedTable
from workers.lakehouse import create_table, open_table
from workers.options.write_options import write_options as own_options
from workers.write.client import WriteClient, WriteRequest
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "place": pa.string(),
    "ts": pa.int64(),
    "note": pa.string(),
}
SCHEMA = pa.schema(_TYPES)
DIRECT = {"hoodie.write.markers.type": "direct"}
DEFAULTS = {"hoodie.metadata.enable": "true"}
_PROVIDER = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
_SHARED = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": _PROVIDER,
}
OURS = DIRECT | _SHARED
LENIENT = _SHARED | {"hoodie.clean.failed.writes.policy": "LAZY"}
"""Else Hudi takes our pending write back before ours can see what Hudi did."""
SWITCHED = "active metadata table"


def batch(
    numbers: range, ts: int, note: str, places: tuple[str, ...] = ("Oslo", "Rome")
) -> pa.Table:
    rows = [
        {"id": f"k{number}", "place": places[number % len(places)], "ts": ts, "note": note}
        for number in numbers
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def notes(rows: pa.Table) -> dict[str, str]:
    """By key; a key that stands twice is an error."""
    listed = rows.select(["id", "note"]).to_pylist()
    note_of = {row["id"]: row["note"] for row in listed}
    assert len(note_of) == len(listed), "a key stands twice"
    return note_of


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_open_handles_do_not_write_past_hudis_metadata_table(
    table_type: str, location: Path, peer: HudiPeer
) -> None:
    table = create_table(
        location,
        name="mixed",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["place"],
        ordering=["ts"],
        table_type=table_type,
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    table.write(batch(range(20), 1, "ours"), options=OURS)
    context = open_table(location).table
    begun = WriteClient(context, own_options(OURS)).begin(SCHEMA, WriteRequest())
    # Of a partition of its own: no conflict keeps it from being published.
    late = prepare(begun.context, batch(range(100, 140), 9, "late", ("Lima",)))
    statuses = write_file_groups(begun.context, late, TaskIds(), context.storage)
    hudis = (
        DEFAULTS
        | LENIENT
        | write_options(
            name="mixed",
            record_key=["id"],
            partition_by=["place"],
            ordering=["ts"],
            buckets=2,
            table_type=table_type,
        )
    )
    peer.write(location, batch(range(10, 30), 2, "hudi"), hudis)

    with pytest.raises(UnsupportedTable, match=SWITCHED):
        begun.commit(statuses)
    for refused in (
        lambda: table.write(batch(range(5), 3, "ours again"), options=OURS),
        lambda: table.cluster(["id"], options=_SHARED),
    ):
        with pytest.raises(UnsupportedTable, match=SWITCHED):
            refused()

    expected = {f"k{n}": "hudi" if n >= 10 else "ours" for n in range(30)}
    assert notes(peer.read(location, DEFAULTS)) == expected
    assert notes(open_table(location).read()) == expected
    peer.write(location, batch(range(5, 35), 4, "hudi again"), hudis)
    expected |= {f"k{n}": "hudi again" for n in range(5, 35)}
    assert notes(peer.read(location, DEFAULTS)) == expected
    assert notes(open_table(location).read()) == expected

    peer.write(location, batch(range(1), 5, "off"), hudis | {"hoodie.metadata.enable": "false"})
    assert isinstance(table.write(batch(range(1, 2), 6, "on"), options=OURS), Committed)
    expected |= {"k0": "off", "k1": "on"}
    assert notes(peer.read(location)) == expected
