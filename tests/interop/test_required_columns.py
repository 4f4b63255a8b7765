"""Columns that become required: hudi-rs and Apache Hudi read the table, and Hudi writes on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer
from tests.support.scenario_table import MODES, Row, ScenarioTable
from workers.schema.alter import RelaxColumn, RequireColumn
from workers.sql.run import run_sql

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

DIRECT = {"hoodie.write.markers.type": "direct"}
COLUMNS: dict[str, pa.DataType] = {"id": pa.string(), "city": pa.string(), "size": pa.int32()}
SCHEMA = pa.schema(COLUMNS)


def upsert(table: ScenarioTable, *rows: tuple[str, str | None, int]) -> None:
    dicts = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    table.lakehouse.write(pa.Table.from_pylist(dicts, schema=SCHEMA), options=DIRECT)


def seen_by_hudi(peer: HudiPeer, location: Path) -> list[Row]:
    read_rows = peer.read(location).select(SCHEMA.names).to_pylist()
    return sorted(read_rows, key=lambda row: row["id"])


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


@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
def test_hudi_reads_an_update_of_some_columns_beside_required_ones(
    mode: str, location: Path, peer: HudiPeer
) -> None:
    """It fails at a log block that lacks one of them."""
    must = pa.schema([one.with_nullable(one.name == "size") for one in SCHEMA])
    partial = {
        "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    }
    table = ScenarioTable(location, table_type="MERGE_ON_READ", schema=must, options=partial)
    upsert(table, ("1", "Oslo", 1), ("2", "Rome", 2))

    run_sql(
        "UPDATE t SET size = 9 WHERE id = '1'",
        tables={"t": table.lakehouse},
        options={**DIRECT, "hoodie.write.concurrency.mode": MODES[mode]},
    )

    expected = [{"id": "1", "city": "Oslo", "size": 9}, {"id": "2", "city": "Rome", "size": 2}]
    assert seen_by_hudi(peer, location) == table.rows() == expected
    table.assert_referee_agrees()
