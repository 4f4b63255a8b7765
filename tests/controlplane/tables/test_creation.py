"""A new table: what a file suggests, what is refused field by field, and that it is there whole or
not at all.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, KeyReused
from controlplane.operations.ask import Requester
from controlplane.operations.requesting import Given
from controlplane.operations.table_creation.actions import do_create_table
from controlplane.operations.table_creation.definition import Column, NewTable
from controlplane.operations.table_creation.suggesting import suggest_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from workers import open_table

GROUPS = '[{"name": "a", "ordering": ["ts"], "columns": ["city"]}]'


@pytest.fixture
def wanted(root: Path) -> NewTable:
    return NewTable(
        location=f"{root}/rides",
        slug="rides-2026",
        namespace="sales",
        columns=(
            Column("id", "string", True),
            Column("city", "string"),
            Column("fare", "decimal(10,2)"),
            Column("ts", "bigint"),
        ),
        record_key=("id",),
        partition_by=("city",),
        ordering="ts",
    )


def make(new: NewTable, by: User, key: str | None = None) -> Table:
    return do_create_table(new, by=Requester.person(by), given=Given(idempotency_key=key))


def fields_of(new: NewTable, by: User) -> dict[str, Any]:
    with pytest.raises(InvalidRequest) as refused:
        make(new, by)
    fields = refused.value.values["fields"]
    assert isinstance(fields, dict)
    return fields


def test_a_table_is_made_as_it_was_asked_for_and_registered(
    wanted: NewTable, admin: User, root: Path
) -> None:
    table = make(wanted, admin)

    opened = open_table(root / "rides")
    config = opened.table.config
    assert (config.name, config.record_key, config.partition_by) == (
        "rides_2026", ("id",), ("city",),
    )  # fmt: skip
    assert config.ordering == ("ts",)
    schema = opened.schema()
    assert schema is not None
    assert schema.field("fare").type == pa.decimal128(10, 2)
    assert not schema.field("id").nullable
    assert (table.slug, table.namespace) == ("rides-2026", "sales")
    assert AuditEvent.objects.filter(what="table.create", object="rides-2026").count() == 1


def test_everything_that_is_wrong_is_said_at_once_by_its_field_and_nothing_is_made(
    wanted: NewTable, admin: User, root: Path
) -> None:
    do_register_table(location=f"{root}/taken", slug="taken", by=admin)
    bad = NewTable(
        location=f"{root}/taken/inner",
        slug="taken",
        name="<b>",
        namespace="Sales!",
        columns=(Column("id", "text of some kind"), Column("1st", "string"), Column("at", "float")),
        record_key=("at", "nowhere"),
        partition_by=("city", "city"),
        ordering="ts",
        table_type="FAST",
        groups="{",
    )

    fields = fields_of(bad, admin)

    assert set(fields) == {
        "slug", "name", "namespace", "location", "columns", "record_key", "partition_by",
        "ordering", "table_type", "groups",
    }  # fmt: skip
    assert len(fields["columns"]) == 2
    assert len(fields["record_key"]) == 2
    assert [table.slug for table in Table.objects.all()] == ["taken"]
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    "column_type",
    [
        "",
        "int; drop table x",
        "decimal(50,2)",
        "decimal(a,b)",
        "foo",
        "array<" * 60,
        "x" * 600,
        "array<int>>",
        "array<float)int>",
        "int not null",
        "text of some kind",
    ],
)
def test_a_type_that_no_column_has_is_refused(
    wanted: NewTable, admin: User, column_type: str
) -> None:
    bad = replace(wanted, columns=(*wanted.columns, Column("extra", column_type)))

    assert "extra" in fields_of(bad, admin)["columns"][0]


def test_what_only_the_whole_definition_shows_is_refused_before_a_file_is_written(
    wanted: NewTable, admin: User, root: Path
) -> None:
    bad = replace(wanted, groups=GROUPS.replace("city", "nowhere"))

    with pytest.raises(InvalidRequest):
        make(bad, admin)

    assert not Table.objects.exists()
    assert list(root.iterdir()) == []


def test_a_place_where_a_table_lies_is_kept_as_it_is(
    wanted: NewTable, admin: User, root: Path
) -> None:
    table = make(wanted, admin)
    Table.objects.all().delete()
    properties = (root / "rides" / ".hoodie" / "hoodie.properties").read_bytes()

    fields = fields_of(replace(wanted, record_key=("city",)), admin)

    assert "register it" in fields["location"][0]
    assert (root / "rides" / ".hoodie" / "hoodie.properties").read_bytes() == properties
    assert not Table.objects.filter(location=table.location).exists()


def test_the_same_request_with_its_key_makes_one_table(wanted: NewTable, admin: User) -> None:
    first = make(wanted, admin, key="k1")

    assert make(wanted, admin, key="k1").pk == first.pk
    with pytest.raises(KeyReused):
        make(replace(wanted, slug="other"), admin, key="k1")
    assert Table.objects.count() == 1


def test_an_operator_makes_no_table(wanted: NewTable, operator: User, root: Path) -> None:
    with pytest.raises(PermissionDenied):
        make(wanted, operator)

    assert list(root.iterdir()) == []


@pytest.fixture
def drop(tmp_path: Path, settings: Settings) -> Path:
    """A source root that belongs to no namespace."""
    folder = tmp_path / "drop"
    folder.mkdir()
    settings.SLUICE_SOURCE_ROOTS = (str(folder),)
    return folder


def test_a_file_suggests_columns_and_the_key_that_is_unique(drop: Path, admin: User) -> None:
    path = drop / "hours.csv"
    lines = [f"{origin},{hour},{hour % 7}.5,NA" for origin in ("EWR", "JFK") for hour in range(40)]
    path.write_text("origin,hour,temp,gust\n" + "\n".join(lines))

    suggestion = suggest_table(str(path), by=admin)

    assert [(column.name, column.type) for column in suggestion.columns] == [
        ("origin", "string"), ("hour", "bigint"), ("temp", "double"), ("gust", "string"),
    ]  # fmt: skip
    assert [(key.columns, key.is_unique) for key in suggestion.keys] == [(["hour", "origin"], True)]
    assert suggestion.partition_by == ["origin"]
    assert suggestion.is_whole


def test_a_pair_is_found_among_many_columns_with_more_values(drop: Path, admin: User) -> None:
    path = drop / "wide.csv"
    many = [f"c{at}" for at in range(9)]
    rows = [
        [str(hour), *(str((hour * 7 + at) % (41 + at)) for at in range(9)), origin]
        for hour in range(50)
        for origin in ("EWR", "JFK")
    ]
    path.write_text("\n".join(",".join(row) for row in [["hour", *many, "origin"], *rows]))

    suggestion = suggest_table(str(path), by=admin)

    assert ["hour", "origin"] in [key.columns for key in suggestion.keys if key.is_unique]


def test_where_nothing_is_unique_the_nearest_is_shown_as_such(drop: Path, admin: User) -> None:
    (drop / "twice.csv").write_text("a,b\nx,1\nx,1\ny,2\n")

    suggestion = suggest_table(str(drop / "twice.csv"), by=admin)

    assert suggestion.keys
    assert not any(key.is_unique for key in suggestion.keys)


def test_a_parquet_file_is_read_no_further_than_its_sample(
    drop: Path, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.operations.table_creation.suggesting.SAMPLE_ROWS", 10)
    rows = pa.table({"id": list(range(25)), "when": pa.array([0] * 25, pa.timestamp("us", "UTC"))})
    pq.write_table(rows, drop / "rows.parquet")

    suggestion = suggest_table(str(drop / "rows.parquet"), by=admin)

    assert (suggestion.rows_sampled, suggestion.is_whole) == (10, False)
    assert suggestion.keys[0].columns == ["id"]
    assert suggestion.ordering == ["when"]


def test_a_table_of_a_files_columns_takes_its_rows(
    root: Path, drop: Path, wanted: NewTable, admin: User
) -> None:
    rows = pa.table(
        {
            "id": ["a", "b"],
            "small": pa.array([1, 2], pa.int8()),
            "tags": [["x"], []],
            "at": pa.array([0, 1], pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(rows, drop / "rows.parquet")
    suggestion = suggest_table(str(drop / "rows.parquet"), by=admin)

    columns = [Column(column.name, column.type) for column in suggestion.columns]
    make(replace(wanted, columns=columns, partition_by=(), ordering="at"), admin)
    opened = open_table(root / "rides")
    opened.write(rows.set_column(1, "small", rows.column("small").cast(pa.int32())))

    assert sorted(opened.read().column("id").to_pylist()) == ["a", "b"]


@pytest.mark.parametrize("path", ["/etc/passwd", "rows.csv", "{drop}/none.csv", "{drop}/rows.txt"])
def test_a_file_elsewhere_or_of_another_kind_is_refused(drop: Path, admin: User, path: str) -> None:
    (drop / "rows.txt").write_text("a\n1\n")

    with pytest.raises(InvalidRequest):
        suggest_table(path.format(drop=drop), by=admin)
