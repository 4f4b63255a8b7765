"""Partition values that could be spelled in several ways: all three readers show the same rows of a
portable table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer
from tests.support.referee import referee_table
from workers.lakehouse import create_table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SCHEMA = pa.schema([pa.field("id", pa.string()), pa.field("place", pa.string())])
PLACES = ["x=y", "a b", "a%20b", "it's 50%", "A/B", "ß", "plain", None]


def by_id(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.select(["id", "place"]).to_pylist(), key=lambda row: str(row["id"]))


@pytest.mark.parametrize("hive_style", ["true", "false"])
def test_readers_agree_on_partition_values(hive_style: str, location: Path, peer: HudiPeer) -> None:
    table = create_table(
        location,
        name="places",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["place"],
        options={
            "sluice.portable": "true",
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.datasource.write.partitionpath.urlencode": "true",
            "hoodie.datasource.write.hive_style_partitioning": hive_style,
        },
    )
    rows = [{"id": f"k{number}", "place": place} for number, place in enumerate(PLACES)]
    batch = pa.Table.from_pylist(rows, schema=SCHEMA)

    table.write(batch, options={"hoodie.write.markers.type": "direct"})

    assert by_id(table.read()) == rows
    assert by_id(referee_table(location)) == rows
    assert by_id(peer.read(location)) == rows
