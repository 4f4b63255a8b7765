"""Every list is a file for whoever asks for one: all rows that its filters leave, nobody else's,
and none that a spreadsheet computes.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.models import Grant
from controlplane.operations.models import Operation
from controlplane.paging import PAGE_ROWS_MAX
from controlplane.tables.models import Table
from tests.controlplane.sql_tables import CANARY, SqlTables
from tests.web.conftest import fill

FORMULA = "=1+cmd|' /C calc'!A0"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
API = "/api/v1/"
OWN_FILE = f"{API}audit/"
"""Its file is another address, where whoever takes it is recorded."""


@pytest.fixture
def rides(admin: User) -> Table:
    """As of an hour ago: nothing of it changes by itself between two answers."""
    return fill("rides", admin, text=FORMULA, now=datetime.now(UTC) - timedelta(hours=1))


def taken(client: Client, address: str, as_format: str, **query: str) -> bytes:
    response = client.get(address, {"file_format": as_format, **query})
    assert response.status_code == 200, (address, response.content)
    assert response["Cache-Control"] == "no-store"
    return response.getvalue()


def csv_rows(file: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.decode(), newline="")))


def json_rows(file: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.decode().splitlines()]


def parquet(file: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(file))


def lists(client: Client) -> list[str]:
    """The addresses of all lists of the node and of a table."""
    paths = client.get(f"{API}schema/?format=json").json()["paths"]
    addresses = []
    for path, methods in paths.items():
        parameters = methods.get("get", {}).get("parameters", ())
        named = {parameter["name"] for parameter in parameters}
        needs = {one["name"] for one in parameters if one["in"] == "query" and one.get("required")}
        place = path.replace("{slug}", "rides")
        if "file_format" in named and not needs and "{" not in place and "export" not in place:
            addresses.append(place)
    return addresses


@pytest.mark.slow
def test_every_list_has_a_file_of_each_kind_with_the_rows_of_its_answer(
    client: Client, admin: User, rides: Table
) -> None:
    client.force_login(admin)
    addresses = lists(client)
    filled = 0

    for address in addresses:
        answer = client.get(address).json()
        shown = answer["results"] if isinstance(answer, dict) else answer
        lines = json_rows(taken(client, address, "jsonl"))
        cells = csv_rows(taken(client, address, "csv"))
        table = parquet(taken(client, address, "parquet"))

        assert len(lines) == len(cells) == table.num_rows == len(shown), address
        for line, cell, row in zip(lines, cells, shown, strict=True):
            assert list(line) == list(cell) == table.column_names == list(row), address
        assert not [text for cell in cells for text in cell.values() if _is_formula(text)], address
        filled += bool(shown)
    assert len(addresses) > 30
    assert filled > 15


def test_whatever_answers_a_list_or_a_page_is_taken_as_a_file(client: Client, admin: User) -> None:
    client.force_login(admin)
    document = client.get(f"{API}schema/?format=json").json()
    schemas = document["components"]["schemas"]
    without = []

    for path, methods in document["paths"].items():
        operation = methods.get("get", {})
        content = operation.get("responses", {}).get("200", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        named = {parameter["name"] for parameter in operation.get("parameters", ())}
        if _is_list(schema, schemas) and "file_format" not in named:
            without.append(path)

    assert without == [OWN_FILE]


def test_a_file_has_all_pages_with_the_fields_and_order_that_were_chosen(
    client: Client, viewer: User, rides: Table
) -> None:
    many = 2 * PAGE_ROWS_MAX + 7
    Operation.objects.bulk_create(
        Operation(table=rides, kind="write", state="succeeded", message=f"m{number:05}")
        for number in range(many)
    )
    client.force_login(viewer)

    file = taken(
        client, f"{API}operations/", "csv", states="succeeded", fields="message,kind", sort="kind"
    )
    rows = csv_rows(file)

    assert len(rows) == many
    assert {row["message"] for row in rows} == {f"m{number:05}" for number in range(many)}
    assert list(rows[0]) == [name for name in rows[0] if name in ("kind", "message")]
    assert parquet(taken(client, f"{API}operations/", "parquet", states="succeeded")).num_rows == (
        many
    )


def test_columns_of_parquet_have_their_types(client: Client, viewer: User, rides: Table) -> None:
    client.force_login(viewer)

    types = {
        field.name: str(field.type)
        for field in parquet(taken(client, f"{API}tables/", "parquet")).schema
    }

    assert types["slug"] == "string"
    assert types["synced_at"] == "timestamp[us, tz=UTC]"
    assert {"int64", "string"} <= set(types.values())


def test_a_file_holds_nothing_of_a_table_that_its_reader_may_not_see(
    client: Client, admin: User, nobody: User, rides: Table
) -> None:
    fill("hidden", admin, text="of-the-hidden-table")
    Grant.objects.create(user=nobody, table=rides, role="viewer", granted_by="ada")
    client.force_login(admin)
    addresses = lists(client)
    client.force_login(nobody)

    for address in addresses:
        response = client.get(address, {"file_format": "jsonl"})
        text = response.getvalue().decode()
        assert response.status_code in (200, 403), address
        assert "of-the-hidden-table" not in text, address


@pytest.mark.parametrize(
    "query", ["file_format=xlsx", "file_format=csv&limit=3", "file_format=csv&cursor=x"]
)
def test_what_is_no_file_is_refused(client: Client, viewer: User, rides: Table, query: str) -> None:
    client.force_login(viewer)

    refused = client.get(f"{API}tables/?{query}")

    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


def test_an_object_is_no_file(client: Client, viewer: User, rides: Table) -> None:
    client.force_login(viewer)

    answer = client.get(f"{API}tables/rides/?file_format=csv")

    assert answer["Content-Type"] == "application/json"


@pytest.mark.slow
def test_rows_of_a_statement_are_a_file_with_masks_and_without_formulas(
    client: Client, sql_tables: SqlTables
) -> None:
    client.force_login(sql_tables.pia)
    statement = "SELECT id, ssn, '=1+1' AS `-city` FROM people ORDER BY id"

    def file(as_format: str, text: str = statement, **more: Any) -> Any:
        body = {"statement": text, "file_format": as_format, **more}
        return client.post(f"{API}sql/", body, "application/json")

    as_csv, as_lines, as_parquet = (file(kind) for kind in ("csv", "jsonl", "parquet"))

    assert as_csv.getvalue().decode().splitlines() == [
        "id,ssn,'-city", "1,••••,'=1+1", "2,••••,'=1+1",
    ]  # fmt: skip
    assert json_rows(as_lines.getvalue())[0] == {"id": 1, "ssn": "••••", "-city": "=1+1"}
    table = parquet(as_parquet.getvalue())
    assert str(table.schema.field("id").type) == "int64"
    assert table.column("-city").to_pylist() == ["=1+1", "=1+1"]
    assert CANARY not in as_csv.getvalue().decode() + str(table.to_pylist())
    assert as_csv["Sluice-Cut-By"] == ""
    refused = file("parquet", "SELECT id AS a, id AS a FROM people", limit=1)
    assert refused.status_code == 400
    assert file("csv", "SELECT 1 AS a UNION ALL SELECT 2", limit=1)["Sluice-Cut-By"] == "rows"


def _is_formula(text: str) -> bool:
    return text.startswith(FORMULA_STARTS) and not _is_number(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_list(schema: dict[str, Any], schemas: dict[str, Any]) -> bool:
    if schema.get("type") == "array":
        return "$ref" in schema["items"]
    named = schemas.get(schema.get("$ref", "").rpartition("/")[2], {})
    return set(named.get("properties", ())) == {"results", "next_cursor"}
