"""Tables whose ordering column was an int and became a long: versions and deletes of both types
stand beside one another, in base files and logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
