"""Deleting on purpose: the plan says what goes, the run deletes exactly that, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
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
    pa.field("seen", pa.timestamp("us", "UTC")),
]
SCHEMA = pa.schema(_COLUMNS)
ROWS = [
    {"id": str(number), "city": city, "ts": number, "seen": None}
    for number, city in enumerate(["Oslo", "Oslo", "Bergen", "Bergen", "Turku"])
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


def plan(table: LakehouseTable, service: str, parameters: Mapping[str, str]) -> ServicePlan:
    return registry.get_service(service).plan(table.table, parameters)


def run(
    table: LakehouseTable, service: str, parameters: Mapping[str, str], plan_hash: str | None
) -> str:
    request = ServiceRequest(by="ada", parameters=parameters, expected_plan_hash=plan_hash)
    return registry.get_service(service).run(table.table, request, write_options({})).summary


def ids(table: LakehouseTable) -> list[str]:
    return sorted(table.read().column("id").to_pylist())


def test_rows_that_a_condition_names_go_and_no_others(table: LakehouseTable) -> None:
    parameters = {"predicate": "city = 'Bergen' or ts = 0"}
    shown = plan(table, "delete", parameters)

    said = run(table, "delete", parameters, shown.plan_hash)

    assert (shown.figures["rows"], shown.figures["partitions"]) == (3, 2)
    assert said == "deleted 3 rows"
    assert ids(table) == ["1", "4"]
    assert plan(table, "delete", parameters).is_empty


def test_a_row_that_joined_after_the_plan_voids_it(table: LakehouseTable) -> None:
    parameters = {"predicate": "city = 'Oslo'"}
    shown = plan(table, "delete", parameters)
    table.write(pa.Table.from_pylist([ROWS[0] | {"id": "9"}], schema=SCHEMA))

    with pytest.raises(PlanChanged):
        run(table, "delete", parameters, shown.plan_hash)

    assert ids(table) == ["0", "1", "2", "3", "4", "9"]
    assert all(one.is_completed for one in table.timeline())


def test_a_partition_is_emptied_as_planned(table: LakehouseTable) -> None:
    parameters = {"partitions": "Oslo"}
    shown = plan(table, "delete_partition", parameters)

    run(table, "delete_partition", parameters, shown.plan_hash)

    assert shown.bytes_total > 0
    assert {item.what.split("/")[0] for item in shown.items} == {"Oslo"}
    assert ids(table) == ["2", "3", "4"]
    assert plan(table, "delete_partition", parameters).is_empty


def test_a_write_into_the_partition_after_the_plan_voids_it(table: LakehouseTable) -> None:
    parameters = {"partitions": '["Oslo", "Bergen"]'}
    shown = plan(table, "delete_partition", parameters)
    table.write(pa.Table.from_pylist([ROWS[2] | {"ts": 77}], schema=SCHEMA))

    with pytest.raises(PlanChanged):
        run(table, "delete_partition", parameters, shown.plan_hash)

    assert len(ids(table)) == 5
    assert all(one.is_completed for one in table.timeline())


@pytest.mark.parametrize("keys", ['["0", "3", "9"]', '[{"id": "0"}, {"id": "3"}]'])
def test_rows_that_keys_name_go_and_no_others(table: LakehouseTable, keys: str) -> None:
    shown = plan(table, "delete", {"keys": keys})

    run(table, "delete", {"keys": keys}, shown.plan_hash)

    assert shown.figures["rows"] == 2
    assert ids(table) == ["1", "2", "4"]


def test_a_key_with_its_partition_is_meant_there_only(table: LakehouseTable) -> None:
    table.write(pa.Table.from_pylist([ROWS[0] | {"city": "Turku"}], schema=SCHEMA))

    run(table, "delete", {"keys": '[{"id": "0", "city": "Oslo"}]'}, None)

    left = table.read().select(["id", "city"]).to_pylist()
    assert [row["city"] for row in left if row["id"] == "0"] == ["Turku"]


def test_keys_come_from_a_file_whose_other_columns_are_not_looked_at(
    table: LakehouseTable, tmp_path: Path
) -> None:
    path = tmp_path / "gone.csv"
    path.write_text("note,id\nx,1\ny,4\n")

    run(table, "delete", {"path": str(path)}, None)

    assert ids(table) == ["0", "2", "3"]


def test_as_many_other_rows_are_another_plan(table: LakehouseTable) -> None:
    shown = plan(table, "delete", {"keys": '["0"]'})

    with pytest.raises(PlanChanged):
        run(table, "delete", {"keys": '["1"]'}, shown.plan_hash)


@pytest.mark.parametrize(
    ("service", "parameters"),
    [
        ("delete", {}),
        ("delete", {"predicate": "town = 'Oslo'"}),
        ("delete", {"where": "ts = 1"}),
        ("delete", {"keys": "[1"}),
        ("delete", {"keys": "[]"}),
        ("delete", {"keys": "[1]"}),
        ("delete", {"keys": '[{"city": "Oslo"}]'}),
        ("delete", {"keys": '[{"id": "1", "town": "Oslo"}]'}),
        ("delete", {"keys": '["1"]', "predicate": "ts = 1"}),
        ("delete", {"path": "/nowhere/keys.csv"}),
        ("delete_partition", {}),
        ("delete_partition", {"partitions": "Paris"}),
        ("delete_partition", {"partitions": "../trips2"}),
        ("delete_partition", {"partitions": "*"}),
        ("delete_partition", {"partitions": "[1]"}),
    ],
)
def test_what_cannot_be_meant_is_refused_by_the_plan(
    table: LakehouseTable, service: str, parameters: dict[str, str]
) -> None:
    with pytest.raises(InvalidInput):
        plan(table, service, parameters)


@pytest.mark.parametrize(
    ("service", "parameters", "sample"),
    [
        (
            "delete",
            {"predicate": "ts < 2"},
            [{"id": "0", "city": "Oslo", "ts": 0}, {"id": "1", "city": "Oslo", "ts": 1}],
        ),
        ("delete", {"keys": '["2"]'}, [{"id": "2", "city": "Bergen"}]),
        ("delete", {"predicate": "ts > 99"}, None),
        ("delete_partition", {"partitions": "Turku"}, [{"id": "4", "city": "Turku", "ts": 4}]),
    ],
)
def test_a_plan_has_rows_that_go(
    service: str, parameters: Mapping[str, str], sample: list[Any] | None, table: LakehouseTable
) -> None:
    rows = plan(table, service, parameters).sample

    assert (None if rows is None else sorted(rows.to_pylist(), key=str)) == sample
