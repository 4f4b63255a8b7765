"""Tables drawn by chance: types, nulls, NaN, nested columns, logs, deletes, groups, columns that
came or widened later, partitions. And conditions over their columns.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.scenario_table import schema_of
from workers.lakehouse import LakehouseTable, create_table

DIRECT = {"hoodie.write.markers.type": "direct"}
PARTIAL = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
GROUPS = {
    "hoodie.multistream.groups": json.dumps(
        [
            {"name": "shown", "ordering": ["ts"], "columns": ["city", "day", "at", "count"]},
            {"name": "sold", "ordering": ["sold_at"], "columns": ["share", "price", "is_open"]},
        ]
    )
}
SCHEMA = schema_of(
    id=pa.int64(),
    ts=pa.int64(),
    city=pa.string(),
    day=pa.date32(),
    at=pa.timestamp("us", tz="UTC"),
    count=pa.int32(),
    share=pa.float64(),
    price=pa.decimal128(9, 2),
    is_open=pa.bool_(),
    tags=pa.list_(pa.string()),
    place=pa.struct([("x", pa.int64()), ("name", pa.string())]),
)
LATER = SCHEMA.append(pa.field("note", pa.string())).set(
    SCHEMA.get_field_index("count"), pa.field("count", pa.int64())
)
"""With a column that came later, and a wider one."""
GROUPED = schema_of(
    id=pa.int64(),
    ts=pa.int64(),
    city=pa.string(),
    day=pa.date32(),
    at=pa.timestamp("us", tz="UTC"),
    count=pa.int32(),
    sold_at=pa.int64(),
    share=pa.float64(),
    price=pa.decimal128(9, 2),
    is_open=pa.bool_(),
)
CITIES = ["Oslo", "Rome", "São Paulo", "", None]
SHARES = [0.0, -0.0, 0.25, 0.5, math.nan, math.inf, -math.inf]
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
KEYS = 50


def row(chance: random.Random, key: int, ts: int) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return {
        "id": key,
        "ts": ts,
        "city": chance.choice(CITIES),
        "day": maybe(dt.date(2026, 1, 1 + chance.randrange(5))),
        "at": maybe(NOON + dt.timedelta(seconds=chance.randrange(10_000))),
        "count": maybe(chance.randrange(-5, 6)),
        "share": maybe(chance.choice(SHARES)),
        "price": maybe(Decimal(chance.randrange(-300, 300)) / 100),
        "is_open": maybe(chance.random() < 0.5),
        "tags": maybe([chance.choice("abc") for _ in range(chance.randrange(3))]),
        "place": maybe({"x": chance.randrange(4), "name": maybe("p")}),
        "note": maybe(chance.choice("xyz")),
        "sold_at": ts,
    }


def a_table(where: Path, chance: random.Random) -> LakehouseTable:
    """Some commits: an insert, updates older and newer than what they meet, deletes."""
    kind = chance.choice(["COPY_ON_WRITE", "MERGE_ON_READ", "MERGE_ON_READ", "MERGE_ON_READ"])
    rules: list[dict[str, str]] = [{}, {}, COMMIT_TIME, GROUPS]
    # Partial updates by event time are kept in logs.
    rule = chance.choice([*rules, PARTIAL] if kind == "MERGE_ON_READ" else rules)
    schema = GROUPED if rule is GROUPS else SCHEMA
    partitions = chance.choice([[], ["city"], ["day"]])
    # Rows of groups lie where their key says, and a stream that does not know the city is one too.
    partition_by = [] if rule is GROUPS else partitions
    ordering = [] if rule in (GROUPS, COMMIT_TIME) else ["ts"]
    buckets = {"hoodie.bucket.index.num.buckets": str(chance.choice([1, 3]))}
    table = create_table(
        where / "table", name="t", schema=schema, record_key=["id"], ordering=ordering,
        partition_by=partition_by, table_type=kind, options=buckets | rule,
    )  # fmt: skip
    rows = {key: row(chance, key, 5) for key in range(KEYS)}
    table.write(_batch(list(rows.values()), schema), options=DIRECT)
    for _ in range(chance.choice([1, 2, 3])):
        keys = chance.sample(range(KEYS + 10), 12)
        schema = LATER if schema is not GROUPED and chance.random() < 0.5 else schema
        # Its partition stays, where there is one: rows do not move.
        placed = {name: name for name in partition_by}
        again = [
            row(chance, key, chance.randrange(10))
            | {name: rows[key][name] for name in placed if key in rows}
            for key in keys
        ]
        table.write(_batch(again, schema), options=DIRECT)
    if chance.random() < 0.5:
        gone = [rows[key] for key in chance.sample(range(KEYS), 6)]
        names = ["id", *partition_by]
        table.write(
            _batch(gone, pa.schema([schema.field(one) for one in names])),
            operation="delete",
            options=DIRECT,
        )
    return table


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    names = set(schema.names)
    return pa.Table.from_pylist(
        [{k: v for k, v in one.items() if k in names} for one in rows], schema
    )


FLAT = ("id", "city", "day", "at", "count", "share", "price", "is_open")


@st.composite
def conditions(draw: Any, names: tuple[str, ...] = FLAT) -> tuple[str, str, Any]:
    """One (column, comparison, value) over columns that every table has."""
    chance = draw(st.randoms(use_true_random=False))
    given = row(chance, chance.randrange(KEYS + 20), 1)
    name = chance.choice(names)
    if (value := given[name]) is None:
        return name, chance.choice(["is", "is not"]), None
    if chance.random() < 0.3:
        others = [row(chance, chance.randrange(KEYS), 1)[name] for _ in range(3)]
        values = [value, *(one for one in others if one is not None)]
        return name, chance.choice(["in", "not in"]), values
    return name, chance.choice(["=", "=", "!=", "<", "<=", ">", ">="]), value
