"""A partitioned table that two streams with clocks of their own write, and their rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, schema_of

SCHEMA = schema_of(
    id=pa.string(),
    day=pa.string(),
    shown_at=pa.int64(),
    price=pa.int64(),
    clicked_at=pa.int64(),
    x=pa.int64(),
)
SHOWN = {"name": "shown", "ordering": ["shown_at"], "columns": ["price"]}
CLICK = {"name": "click", "ordering": ["clicked_at"], "columns": ["x"]}
GROUPS = {"shown": ("shown_at", "price"), "click": ("clicked_at", "x")}
UPDATE = "hoodie.multistream.partition.update"
MARK = "_hoodie_is_deleted"


def made(
    tables: ScenarioTables,
    table_type: str = "MERGE_ON_READ",
    update: str | None = None,
    *groups: dict[str, Any],
    schema: pa.Schema = SCHEMA,
    options: Mapping[str, str] | None = None,
) -> ScenarioTable:
    given = {
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.multistream.groups": json.dumps(groups or [SHOWN, CLICK]),
        **({UPDATE: update} if update else {}),
        **(options or {}),
    }
    return tables(table_type=table_type, schema=schema, partition_by=["day"], options=given)


def mode_of(table: ScenarioTable) -> str:
    return "non-blocking" if table.table.config.is_merge_on_read else "optimistic"


def write(table: ScenarioTable, *rows: Row, stream: str | None = None) -> None:
    """One commit in the mode that the table has for streams."""
    table.writer("w", mode=mode_of(table), stream=stream).upsert_and_commit(*rows)


def shown(key: str, day: str | None, at: int | None, price: int | None = 1) -> Row:
    return {"id": key, "day": day, "shown_at": at, "price": price}


def click(key: str, day: str | None, at: int | None, x: int | None = 1) -> Row:
    return {"id": key, "day": day, "clicked_at": at, "x": x}


def gone(row: Row) -> Row:
    return {**row, MARK: True}


def wide(key: str, day: str | None, **cells: Any) -> Row:
    return dict.fromkeys(SCHEMA.names) | {"id": key, "day": day} | cells


def named(*keys: tuple[str, str]) -> pa.Table:
    """Keys and their partitions, to delete."""
    return pa.table({"id": [key for key, _ in keys], "day": [day for _, day in keys]})
