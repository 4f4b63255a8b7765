"""The metadata table of Apache Hudi after every kind of its operations: ours reads it as Hudi
means it, so it agrees with storage each time.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer, write_options
from workers.lakehouse import open_table
from workers.table_services.validation import Fault

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "place": pa.string(),
    "ts": pa.int64(),
    "note": pa.string(),
}
SCHEMA = pa.schema(_TYPES)
OFTEN = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.automatic": "true",
}
STEPS = (
    ("bulk_insert", range(20)),
    ("upsert", range(10, 30)),
    ("delete", range(5)),
    ("insert_overwrite", range(40, 44)),
    ("upsert", range(40, 60)),
    ("upsert", range(20)),
    ("insert_overwrite_table", range(8)),
    ("upsert", range(4)),
    ("upsert", range(2)),
)


def batch(numbers: range, ts: int) -> pa.Table:
    listed = [
        {"id": f"k{n}", "place": ("Oslo", "Rome")[n % 2], "ts": ts, "note": f"{ts}"}
        for n in numbers
    ]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_metadata_table_agrees_after_every_commit_of_hudi(
    table_type: str, location: Path, peer: HudiPeer
) -> None:
    options = OFTEN | write_options(
        name="kept",
        record_key=["id"],
        partition_by=["place"],
        ordering=["ts"],
        buckets=2,
        table_type=table_type,
    )
    options["hoodie.metadata.enable"] = "true"
    for ts, (operation, numbers) in enumerate(STEPS):
        how = options | {"hoodie.datasource.write.operation": operation}
        peer.write(location, batch(numbers, ts), how)
        shown = open_table(location).validate()
        assert shown.is_sound, (operation, shown.differences)
        assert shown.files > 0
    assert list((location / ".hoodie/metadata/files").glob("*.hfile")), "never compacted"

    newest = max((location / ".hoodie/metadata/files").glob(".files*.log.*"), key=lambda p: p.name)
    newest.unlink()
    faults = {one.fault for one in open_table(location).validate().differences}
    assert Fault.UNLISTED in faults
