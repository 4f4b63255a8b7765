"""A file looked at before it is written: its columns, and what the write would be refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from bench.support.s3_server import BUCKET, shared_server
from controlplane.errors import InvalidRequest
from controlplane.operations.source_places import checked_rows_place
from controlplane.operations.source_previews import preview_source
from controlplane.tables.models import Table
from workers.storage.opener import open_storage

LINES = '{"id": "1", "ts": 5, "city": "Oslo", "at": {"x": 1.5}}\n{"id": "2", "ts": 6}\n'


@pytest.fixture
def drop(tmp_path: Path, settings: Settings) -> Path:
    folder = tmp_path / "drop"
    folder.mkdir()
    settings.SLUICE_SOURCE_ROOTS = (str(folder), f"s3://{BUCKET}/drop")
    return folder


def preview(table: Table, path: object, kind: str, **more: Any) -> Any:
    by = User.objects.get_or_create(username="looks", is_superuser=True)[0]
    return preview_source(table, {"kind": kind, "path": str(path)}, by=by, **more)


def test_json_lines_are_shown_beside_the_table(synced: Table, drop: Path) -> None:
    (drop / "new.jsonl").write_text(LINES)

    shown = preview(synced, drop / "new.jsonl", "json")

    assert (shown.problem, shown.rows_sampled, shown.is_whole) == ("", 2, True)
    columns = {column.name: (column.type, column.table_type) for column in shown.columns}
    assert columns["ts"] == ("bigint", "bigint")
    assert columns["at"] == ("struct<x: double>", "")


def test_what_the_write_would_be_refused_for_is_said(synced: Table, drop: Path) -> None:
    (drop / "keyless.csv").write_text("ts,city\n1,Oslo\n")
    rows = pa.table({"id": ["1"], "ts": [1], "city": [["Oslo"]]})
    with (drop / "nested.parquet").open("wb") as file:
        pq.write_table(rows, file)

    keyless = preview(synced, drop / "keyless.csv", "csv")

    assert "id" in keyless.problem
    with pytest.raises(InvalidRequest, match=r"incompatible type: .*column=city"):
        preview(synced, drop / "nested.parquet", "parquet")


def test_an_object_of_a_bucket_is_looked_at_below_a_source_root_alone(
    synced: Table, drop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat T1."""
    server = shared_server()
    for name, text in server.environment.items():
        monkeypatch.setenv(name, text)
    bucket = open_storage(f"s3://{BUCKET}/drop/day")
    bucket.put("new.json", LINES.encode())

    shown = preview(synced, f"s3://{BUCKET}/drop/day/new.json", "json")

    assert [column.name for column in shown.columns] == ["id", "ts", "city", "at"]
    with pytest.raises(InvalidRequest):
        preview(synced, f"s3://{BUCKET}/drop/day/none.json", "json")
    for place in ("other/new.json", "drop/../other.json", "dropped/new.json", "drop"):
        with pytest.raises(InvalidRequest):
            checked_rows_place(f"s3://{BUCKET}/{place}", None)
    with pytest.raises(InvalidRequest, match="outside"):
        checked_rows_place("s3://elsewhere/drop/new.json", None)


@pytest.mark.parametrize("text", ['{"id": "1"', '{"id": NaN}\n', "[1, 2]\n"])
def test_lines_that_are_none_are_refused(synced: Table, drop: Path, text: str) -> None:
    (drop / "bad.json").write_text(text)

    with pytest.raises(InvalidRequest, match="JSON lines"):
        preview(synced, drop / "bad.json", "json")


def test_api_shows_a_file_to_an_operator(
    synced: Table, drop: Path, client: Client, operator: Any
) -> None:
    (drop / "new.json").write_text(LINES)
    client.force_login(operator)
    address = f"/api/v1/tables/{synced.slug}/sources/preview/"

    shown = client.post(
        address,
        {"source": {"kind": "json", "path": str(drop / "new.json")}},
        content_type="application/json",
    )
    outside = client.post(
        address,
        {"source": {"kind": "json", "path": "/etc/passwd"}},
        content_type="application/json",
    )

    assert shown.json()["columns"][0] == {"name": "id", "type": "string", "table_type": "string"}
    assert (outside.status_code, outside.json()["code"]) == (400, "invalid_request")
