"""Columns that are named as Sluice's or Hudi's own are refused at every way in, with nothing left
behind: rows carry those on their way, so a table that had one could not be written or read any
more, and `_sluice_deleted` took rows for deletes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables, schema_of
from workers import run_sql
from workers.errors import InvalidInput
from workers.lakehouse import create_table
from workers.schema.alter import AddColumn, RenameColumn

OWN = ["_ms_set", "_ms_x", "_sluice_deleted", "_sluice_slot"]
META = "_hoodie_commit_time"
DIRECT = {"hoodie.write.markers.type": "direct"}
WAYS: dict[str, Callable[[ScenarioTable, str], Any]] = {
    "a batch": lambda table, name: table.lakehouse.write(
        pa.table({"id": [2], "city": ["Rome"], name: [1]}), options=DIRECT
    ),
    "alter": lambda table, name: table.lakehouse.alter(AddColumn(name, pa.int64()), options=DIRECT),
    "a rename": lambda table, name: table.lakehouse.alter(
        RenameColumn("city", name), options=DIRECT
    ),
    "SQL": lambda table, name: run_sql(
        f"ALTER TABLE t ADD COLUMN {name} INT", tables={"t": table.lakehouse}, options=DIRECT
    ),
}
MATCH = "taken for one of Sluice's or Hudi's own"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_no_way_brings_a_column_that_is_named_as_one_of_ours(
    tables: ScenarioTables, way: str, kind: str
) -> None:
    table = tables(table_type=kind)
    table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})
    before = table.timeline()

    for name in [*OWN, *([META] if way != "a batch" else [])]:
        with pytest.raises(InvalidInput, match=MATCH) as refused:
            WAYS[way](table, name)
        assert refused.value.values["column"] == name

    assert table.timeline() == before
    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def made(location: Path, schema: pa.Schema | None) -> Any:
    return create_table(location, name="t", schema=schema, record_key=["id"])


@pytest.mark.parametrize("name", OWN)
def test_no_table_begins_with_such_a_column(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=MATCH):
        made(tmp_path / "declared", schema_of(**{"id": pa.int64(), name: pa.int64()}))
    with pytest.raises(InvalidInput, match=MATCH):
        made(tmp_path / "later", None).write(pa.table({"id": [1], name: [1]}), options=DIRECT)

    assert not (tmp_path / "declared").exists()


def test_no_table_begins_with_columns_that_differ_only_by_case(tmp_path: Path) -> None:
    """No batch could be written into it."""
    with pytest.raises(InvalidInput, match="differ only by case"):
        made(tmp_path / "t", schema_of(id=pa.int64(), city=pa.string(), City=pa.string()))
