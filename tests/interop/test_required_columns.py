"""Columns that become required: hudi-rs and Apache Hudi read the table, and Hudi writes on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer
from tests.support.scenario_table import Row, ScenarioTable
from workers.schema.alter import RelaxColumn, RequireColumn

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

DIRECT = {"hoodie.write.markers.type": "direct"}
COLUMNS: dict[str, pa.DataType] = {"id": pa.string(), "city": pa.string(), "size": pa.int32()}
SCHEMA = pa.schema(COLUMNS)


def upsert(table: ScenarioTable, *rows: tuple[str, str | None, int]) -> None:
    found = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    table.lakehouse.write(pa.Table.from_pylist(found, schema=SCHEMA), options=DIRECT)


def seen_by_hudi(peer: HudiPeer, location: Path) -> list[Row]:
    found = peer.read(location).select(SCHEMA.names).to_pylist()
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_reads_a_table_whose_column_became_required_and_optional_again(
    table_type: str, location: Path, peer: HudiPeer
) -> None:
    table = ScenarioTable(location, table_type=table_type, schema=SCHEMA)
    upsert(table, ("1", "Oslo", 1), ("2", "Rome", 2))
    upsert(table, ("1", "Bergen", 3))

    for change in (RequireColumn("city"), RelaxColumn("city")):
        table.lakehouse.alter(change, options=DIRECT)
        assert seen_by_hudi(peer, location) == table.rows()
        table.assert_referee_agrees()
        upsert(table, ("3", "Lima", len(table.timeline())))
        assert seen_by_hudi(peer, location) == table.rows()
        table.assert_referee_agrees()
