"""Apache Hudi sees a schema that a writer brought who began first and committed last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hudi_peer import HudiPeer
from tests.support.late_schemas import BASE, KINDS, LATE, late_table
from tests.support.scenario_table import Row, ScenarioTable

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("change", list(LATE))
def test_hudi_reads_what_we_read_when_the_write_returns(
    location: Path, peer: HudiPeer, kind: tuple[str, str], change: str
) -> None:
    table = late_table(location, kind, change)

    read_rows = peer.read(location).to_pylist()

    assert_same(table, read_rows)


def test_hudi_reads_a_widened_column_in_file_groups_of_logs_alone(
    location: Path, peer: HudiPeer
) -> None:
    table = ScenarioTable(location, table_type="MERGE_ON_READ", schema=BASE)
    first = table.writer("first", mode="non-blocking")
    first.upsert({"id": 2, "n": 1}, {"id": 8, "n": 1}).wins()
    row, schema = LATE["widened column"]
    late = table.writer("late", mode="non-blocking").upsert({"id": 2, **row}, schema=schema)
    table.writer("rival", mode="non-blocking").upsert({"id": 8, "n": 8}).wins()
    late.wins()

    table.assert_referee_agrees()
    assert_same(table, peer.read(location).to_pylist())


def assert_same(table: ScenarioTable, read_rows: list[Row]) -> None:
    columns = table.schema_columns()
    theirs = [{name: row[name] for name in columns} for row in read_rows]
    assert sorted(theirs, key=lambda row: row["id"]) == table.rows()
