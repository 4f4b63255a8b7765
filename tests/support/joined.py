"""A table that two streams with clocks of their own write, for tests of what is told of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from workers import create_table
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable
from workers.timeline.group_facts import GROUP_FACTS_KEY
from workers.timeline.metadata import read_commit_metadata

SHIP_COLUMN = "road"
GROUPS = [
    {"name": "shop", "ordering": ["shop_ts"], "columns": ["price"]},
    {"name": "ship", "ordering": ["ship_ts"], "columns": [SHIP_COLUMN], "null_mode": "keep"},
]
_COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("shop_ts", pa.int64()),
    pa.field("price", pa.float64()),
    pa.field("ship_ts", pa.int64()),
    pa.field(SHIP_COLUMN, pa.string()),
    pa.field("_hoodie_is_deleted", pa.bool_()),
]
DIRECT = {"hoodie.write.markers.type": "direct"}
NON_BLOCKING = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}


def make(
    path: Path, table_type: str = "MERGE_ON_READ", *, options: Mapping[str, str] | None = None
) -> LakehouseTable:
    return create_table(
        path / "orders",
        name="orders",
        schema=pa.schema(_COLUMNS),
        record_key=["id"],
        table_type=table_type,
        options={
            "hoodie.multistream.groups": json.dumps(GROUPS),
            "sluice.event.time.unit": "ms",
            **(options or {}),
        },
    )


def write(table: LakehouseTable, *rows: dict[str, Any]) -> dict[str, Any]:
    """What the commit of these rows tells."""
    return group_facts(table, commit(table, *rows))


def commit(table: LakehouseTable, *rows: dict[str, Any], stream: str | None = None) -> str:
    """The instant of the commit of these rows, which bring the columns that they name."""
    fields = [one for one in _COLUMNS if any(one.name in row for row in rows)]
    batch = pa.Table.from_pylist(list(rows), schema=pa.schema(fields))
    logs = table.table.config.is_merge_on_read
    options = NON_BLOCKING if logs else {}
    outcome = table.write(batch, stream=stream, options=DIRECT | options)
    assert isinstance(outcome, Committed), outcome
    return outcome.instant


def group_facts(table: LakehouseTable, instant: str) -> dict[str, Any]:
    done = table.table.timeline().find(instant)
    assert done is not None
    content = read_commit_metadata(table.table.storage.read(table.table.layout.path(done)))
    facts: dict[str, Any] = json.loads(content.extra_metadata.get(GROUP_FACTS_KEY, "{}"))
    return facts
