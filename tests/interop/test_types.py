"""Every type of the format page, in base files and log blocks: Apache Hudi reads the values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer
from workers.concurrency.outcome import Committed
from workers.lakehouse import create_table

pytestmark = pytest.mark.interop

_UTC = dt.UTC
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["a", "", "ß€😀"]),
    "flag": (pa.bool_(), [True, False, None]),
    "small": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "large": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "single": (pa.float32(), [0.5, -1.25, None]),
    "double": (pa.float64(), [1e308, -1e-308, None]),
    "raw": (pa.binary(), [b"\x00\xff", b"", None]),
    "day": (pa.date32(), [dt.date(1582, 10, 15), dt.date(9999, 12, 31), None]),
    # From before the Gregorian calendar; the second is a day that the hybrid calendar lacks.
    "old_day": (pa.date32(), [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1500, 2, 28)]),
    "moment": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1970, 1, 1, 0, 0, 0, 1, _UTC), dt.datetime(2038, 1, 19, tzinfo=_UTC), None],
    ),
    "old_moment": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(1, 1, 1, tzinfo=_UTC),
            dt.datetime(1500, 2, 28, 23, 59, 59, 999_999, _UTC),
            dt.datetime(1899, 12, 31, tzinfo=_UTC),
        ],
    ),
    "wall": (pa.timestamp("us"), [-3_600_000_000, 1_709_164_800_000_000, None]),
    "price": (pa.decimal128(10, 2), [Decimal("99999999.99"), Decimal("-0.01"), None]),
    "wide": (pa.decimal128(38, 18), [Decimal("1.000000000000000001"), Decimal(-5), None]),
    "tags": (pa.list_(pa.string()), [["x", None], [], None]),
    "named": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], [], None]),
    "place": (
        pa.struct([("city", pa.string()), ("at", pa.struct([("x", pa.float64())]))]),
        [{"city": "Oslo", "at": {"x": 1.5}}, {"city": None, "at": None}, None],
    ),
}
FORMS = [
    ("COPY_ON_WRITE", "parquet"),
    ("MERGE_ON_READ", "parquet"),
    ("MERGE_ON_READ", "avro"),
]


@pytest.mark.parametrize(("table_type", "log_format"), FORMS, ids=["base", "parquet", "avro"])
def test_every_type_round_trips(
    table_type: str, log_format: str, location: Path, peer: HudiPeer
) -> None:
    kinds: dict[str, pa.DataType] = {name: kind for name, (kind, _) in COLUMNS.items()}
    schema = pa.schema({"id": pa.string(), **kinds})
    rows = pa.table(
        [["r0", "r1", "r2"], *(values for _, values in COLUMNS.values())], schema=schema
    )
    table = create_table(
        location,
        name="types",
        schema=schema,
        record_key=["id"],
        table_type=table_type,
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    options = {
        "hoodie.write.markers.type": "direct",
        "hoodie.logfile.data.block.format": log_format,
    }
    for batch in (rows.slice(0, 1), rows):  # The second one lands in a log, where there are logs.
        assert isinstance(table.write(batch, options=options), Committed)

    assert _listed(table.read()) == _listed(rows)
    theirs = peer.read(location)
    assert {name: theirs.schema.field(name).type for name in schema.names if name != "named"} == {
        name: schema.field(name).type for name in schema.names if name != "named"
    }
    assert _listed(theirs) == _listed(rows)


def _listed(rows: pa.Table) -> list[dict[str, Any]]:
    listed = rows.sort_by("id").to_pylist()
    return [
        row | {"named": None if row["named"] is None else sorted(row["named"])} for row in listed
    ]
