"""Every way to write a table, as one list: what a suite runs over.

Only combinations that exist: copy-on-write has no non-blocking mode. Each table type and mode comes
with both marker types, and each of these with and without partitions somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from tests.support.fixtures import MarkerServerAddress
from tests.support.scenario_table import (
    READINGS,
    Row,
    ScenarioTable,
    ScenarioTables,
    ScenarioWriter,
)
from workers.concurrency.outcome import Committed

KINDS_AND_MODES = (
    ("COPY_ON_WRITE", "single"),
    ("COPY_ON_WRITE", "optimistic"),
    ("MERGE_ON_READ", "single"),
    ("MERGE_ON_READ", "optimistic"),
    ("MERGE_ON_READ", "non-blocking"),
)
LOOKED_UP = (
    ("COPY_ON_WRITE", "single", True, "SIMPLE"),
    ("MERGE_ON_READ", "optimistic", False, "BLOOM"),
    ("MERGE_ON_READ", "single", True, "GLOBAL_SIMPLE"),
)
"""Indexes that look keys up; they have no non-blocking mode."""
BUCKETS = {"hoodie.bucket.index.num.buckets": "4"}
MARKERS = ("direct", "timeline_server_based")


@dataclass(frozen=True, slots=True)
class Setup:
    table_type: str
    mode: str
    markers: str
    is_partitioned: bool
    index: str = "BUCKET"

    def __str__(self) -> str:
        kind = "cow" if self.table_type == "COPY_ON_WRITE" else "mor"
        markers = "direct" if self.markers == "direct" else "server"
        name = f"{kind}-{self.mode}-{markers}-{'parts' if self.is_partitioned else 'flat'}"
        return name if self.index == "BUCKET" else f"{name}-{self.index.lower()}"

    @property
    def appends_only(self) -> bool:
        return self.mode == "non-blocking"


SETUPS = tuple(
    Setup(table_type, mode, markers, is_partitioned=(kind + way) % 2 == 0)
    for kind, (table_type, mode) in enumerate(KINDS_AND_MODES)
    for way, markers in enumerate(MARKERS)
) + tuple(
    Setup(table_type, mode, "direct", is_partitioned, index)
    for table_type, mode, is_partitioned, index in LOOKED_UP
)
"""In an order in which kinds that are alike are neighbours: four of copy-on-write, four of
merge-on-read, and the others.
"""
sampled = pytest.mark.sampled(every=4)
"""For a module whose tests run over all of these: each runs over one of each four."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A table of one set-up and its writers."""

    setup: Setup
    table: ScenarioTable
    options: dict[str, str]

    def writer(self, name: str = "writer", **options: str) -> ScenarioWriter:
        return self.table.writer(name, mode=self.setup.mode, options=self.options | options)

    def write(self, *rows: Row, schema: pa.Schema | None = None) -> Committed:
        return self.writer().upsert_and_commit(*rows, schema=schema)

    def write_by_name(self, rows: Sequence[Row], **options: str) -> Any:
        """Through the table's own `write`, as users do."""
        modes = {"hoodie.write.concurrency.mode": self.writer().options.mode.value}
        return self.table.lakehouse.write(
            self.table.batch(rows), options=modes | self.options | options
        )

    def values(self) -> dict[str, Any]:
        return {row["id"]: row["value"] for row in self.table.rows()}


def lake_of(setup: Setup, tables: ScenarioTables, server: MarkerServerAddress) -> Lake:
    options = {"hoodie.write.markers.type": setup.markers}
    if setup.markers != "direct":
        options["sluice.marker.url"] = server.url
    table = tables(
        table_type=setup.table_type,
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"] if setup.is_partitioned else [],
        options=BUCKETS if setup.index == "BUCKET" else {"hoodie.index.type": setup.index},
    )
    return Lake(setup, table, options)


def reading(key: str, ts: int | None, value: int | None, place: str = "oslo") -> Row:
    return {"id": key, "place": place, "ts": ts, "value": value, "note": f"{key}@{ts}"}
