"""Rows in the place of others: the plan names the files that go, the run replaces exactly these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers import create_table
from workers.errors import InvalidInput, PlanChanged
from workers.lakehouse import LakehouseTable
from workers.options.write_options import write_options
from workers.table_services import registry
from workers.table_services.service import ServicePlan, ServiceRequest

_COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("city", pa.string()),
    pa.field("ts", pa.int64()),
]
SCHEMA = pa.schema(_COLUMNS)
ROWS = [
    {"id": str(number), "city": city, "ts": number}
    for number, city in enumerate(["Oslo", "Oslo", "Bergen"])
]


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> LakehouseTable:
    made = create_table(
        tmp_path / "trips",
        name="trips",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["city"],
        ordering=["ts"],
        table_type=request.param,
    )
    made.write(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    return made


@pytest.fixture
def csv(tmp_path: Path) -> str:
    """One row for Oslo, whose key looks like a number."""
    path = tmp_path / "new.csv"
    path.write_text("id,city,ts\n007,Oslo,9\n")
    return str(path)


def plan(table: LakehouseTable, service: str, path: str) -> ServicePlan:
    return registry.get_service(service).plan(table.table, {"path": path})


def run(table: LakehouseTable, service: str, path: str, plan_hash: str | None) -> str:
    request = ServiceRequest(by="ada", parameters={"path": path}, expected_plan_hash=plan_hash)
    return registry.get_service(service).run(table.table, request, write_options({})).summary


def ids(table: LakehouseTable) -> list[str]:
    return sorted(table.read().column("id").to_pylist())


def test_a_partition_is_replaced_as_planned_and_others_stay(
    table: LakehouseTable, csv: str
) -> None:
    shown = plan(table, "insert_overwrite", csv)

    said = run(table, "insert_overwrite", csv, shown.plan_hash)

    gone = [item.what for item in shown.items if item.effect == "delete"]
    assert {path.split("/")[0] for path in gone} == {"Oslo"}
    assert (shown.figures["rows"], shown.figures["partitions"]) == (1, 1)
    assert said.endswith("replaced by 1 row")
    assert ids(table) == ["007", "2"]


def test_the_whole_table_is_replaced(table: LakehouseTable, tmp_path: Path) -> None:
    path = tmp_path / "new.parquet"
    pq.write_table(pa.Table.from_pylist([ROWS[0] | {"city": "Turku"}], schema=SCHEMA), path)
    shown = plan(table, "insert_overwrite_table", str(path))

    run(table, "insert_overwrite_table", str(path), shown.plan_hash)

    assert table.read().select(["id", "city"]).to_pylist() == [{"id": "0", "city": "Turku"}]


def test_a_write_into_the_partition_after_the_plan_voids_it(
    table: LakehouseTable, csv: str
) -> None:
    shown = plan(table, "insert_overwrite", csv)
    table.write(pa.Table.from_pylist([ROWS[0] | {"ts": 77}], schema=SCHEMA))

    with pytest.raises(PlanChanged):
        run(table, "insert_overwrite", csv, shown.plan_hash)

    assert ids(table) == ["0", "1", "2"]
    assert all(one.is_completed for one in table.timeline())


def test_a_file_of_other_content_voids_the_plan(table: LakehouseTable, csv: str) -> None:
    shown = plan(table, "insert_overwrite", csv)
    Path(csv).write_text("id,city,ts\n008,Oslo,9\n")

    with pytest.raises(PlanChanged):
        run(table, "insert_overwrite", csv, shown.plan_hash)

    assert ids(table) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("new.json", "{}"),
        ("new.csv", "id,city,ts\n"),
        ("new.csv", "id,ts\n1,2\n"),
        ("new.csv", "id,city,ts\n1,Oslo,soon\n"),
        ("new.parquet", "no parquet"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_the_plan(
    table: LakehouseTable, tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(InvalidInput):
        plan(table, "insert_overwrite", str(tmp_path / name))
