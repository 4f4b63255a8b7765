"""Tables whose ordering column was an int and became a long: versions and deletes of both types
stand beside one another, in base files and logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa

from tests.support.scenario_table import Row, ScenarioTable, ScenarioWriter, schema_of

NARROW = schema_of(id=pa.int64(), ts=pa.int32(), city=pa.string())
WIDE = schema_of(id=pa.int64(), ts=pa.int64(), city=pa.string())
DELETED = "_hoodie_is_deleted"
FAR = 2**40
"""No int is as great."""
FIRST, OLDER, NEWER, NEWEST = 10, 7, 20, 30
AVRO_BLOCKS = {"hoodie.logfile.data.block.format": "avro"}


def row(key: int, ts: int, city: str, *, deleted: bool = False) -> Row:
    return {"id": key, "ts": ts, "city": city, DELETED: deleted}


NARROW_ROWS = [
    row(1, NEWER, "narrow"),
    row(2, NEWER, "", deleted=True),
    row(3, OLDER, "", deleted=True),
    row(8, NEWER, "", deleted=True),
]
WIDE_ROWS = [
    row(1, NEWER - 1, "late"),
    row(2, NEWER - 1, "late"),
    row(4, FAR, "far"),
    row(5, FAR, "", deleted=True),
    row(6, OLDER, "", deleted=True),
    row(8, NEWEST, "back"),
]
STANDING = [
    {"id": 1, "ts": NEWER, "city": "narrow"},
    {"id": 3, "ts": FIRST, "city": "first"},
    {"id": 4, "ts": FAR, "city": "far"},
    {"id": 6, "ts": FIRST, "city": "first"},
    {"id": 7, "ts": FIRST, "city": "first"},
    {"id": 8, "ts": NEWEST, "city": "back"},
]
"""What `NARROW_ROWS` and then `WIDE_ROWS` leave of the keys 1 to 8 that were there first."""


NARROW_DECIMALS = schema_of(id=pa.int64(), ts=pa.decimal128(10, 2), city=pa.string())
WIDE_DECIMALS = schema_of(id=pa.int64(), ts=pa.decimal128(20, 2), city=pa.string())
DECIMALS_LEFT = dict.fromkeys(range(1, 9), "first") | {1: "narrow", 4: "far", 8: "new"}
"""What key 1 at `NEWER` and `WIDE_DECIMAL_ROWS` leave of the keys 1 to 8 at `FIRST`."""


def decimal_row(key: int, ts: int, city: str) -> Row:
    """Unmarked: of decimals no delete tells its age."""
    return {"id": key, "ts": Decimal(ts), "city": city}


WIDE_DECIMAL_ROWS = [
    decimal_row(1, NEWER - 1, "late"),
    decimal_row(4, FAR, "far"),
    decimal_row(6, OLDER, "late"),
    decimal_row(8, NEWEST, "new"),
]


def fill(table: ScenarioTable) -> None:
    table.writer("first").upsert_and_commit(
        *({"id": key, "ts": FIRST, "city": "first"} for key in range(1, 9))
    )


def upsert(
    table: ScenarioTable,
    rows: Sequence[Row],
    schema: pa.Schema,
    *,
    mode: str = "optimistic",
    options: Mapping[str, str] | None = None,
) -> ScenarioWriter:
    """Written and not committed."""
    writer = table.writer(f"{schema.field('ts').type}", mode=mode, options=options)
    return writer.upsert(*rows, schema=schema)
