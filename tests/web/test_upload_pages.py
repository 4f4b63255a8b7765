"""Files sent from the browser: to the form of a write, and to the form of a new table."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from controlplane.uploads.models import Upload
from controlplane.uploads.places import upload_folder

ADDRESS = "/t/trips/write/upload"
ROWS = b"id,city,ts,note\n1,Oslo,7,hi\n2,Bergen,8,yo\n"


def send(
    client: Client, address: str = ADDRESS, name: str = "trips.csv", body: bytes = ROWS
) -> HttpResponse:
    file = BytesIO(body)
    file.name = name
    answer: HttpResponse = client.post(address, {"file": file})  # type: ignore[assignment]
    return answer


def files() -> list[Path]:
    return [file for file in Path(upload_folder()).rglob("*") if file.is_file()]


def test_a_file_is_sent_previewed_and_written(as_admin: Client, trips: Table) -> None:
    sent = send(as_admin, name="0 å.csv")
    page = as_admin.get(sent["Location"]).content.decode()
    [path] = parse_qs(urlsplit(sent["Location"]).query)["path"]
    form = {"path": path, "operation": "upsert", "idempotency_key": str(Upload.objects.get().pk)}
    written = as_admin.post("/t/trips/write?kind=csv", form)

    assert (sent.status_code, sent["Location"].split("?")[0]) == (302, "/t/trips/write")
    assert "The columns fit the table" in page
    assert page.count("new column</span>") == 1
    assert "0 å.csv" in page
    assert f'value="{path}"' in page
    operation = Operation.objects.get()
    assert written["Location"] == f"/t/trips/operations/{operation.pk}"
    assert operation.parameters["job"]["source"]["path"] == str(files()[0])
    operation_page = as_admin.get(written["Location"]).content.decode()
    assert "0 å.csv" in operation_page
    assert upload_folder() not in operation_page


def test_a_delete_by_an_uploaded_file_leads_to_its_plan(as_admin: Client, trips: Table) -> None:
    sent = send(as_admin, body=b"id\n1\n")
    [path] = parse_qs(urlsplit(sent["Location"]).query)["path"]
    form = {"path": path, "operation": "delete", "idempotency_key": str(Upload.objects.get().pk)}

    there = as_admin.post("/t/trips/write?kind=csv", form)["Location"]
    page = as_admin.get(there)

    assert there.startswith("/t/trips/services/run/delete?path=upload%3A")
    assert (page.status_code, upload_folder() in page.content.decode()) == (200, False)


def test_a_file_suggests_a_new_table_and_is_its_first_write(
    as_admin: Client, trips: Table, root: Path
) -> None:
    sent = send(as_admin, "/tables/create/upload", name="orders.tsv", body=b"id\tx\n1\ta\n2\tb\n")
    page = as_admin.get(sent["Location"]).content.decode()
    [path] = parse_qs(urlsplit(sent["Location"]).query)["path"]
    words = {
        "slug": "orders",
        "namespace": "default",
        "location": str(root / "orders"),
        "columns": "id bigint\nx string",
        "record_key": "id",
        "table_type": "COPY_ON_WRITE",
        "idempotency_key": str(Upload.objects.get().pk),
        "source_path": path,
    }
    created = as_admin.post("/tables/create", words)

    assert sent["Location"].startswith("/tables/create?path=upload%3A")
    assert "Key candidates" in page
    assert "id bigint" in page
    assert created["Location"].startswith("/t/orders/write?kind=csv&path=upload%3A")
    assert "The columns fit the table" in as_admin.get(created["Location"]).content.decode()


def test_a_file_that_is_too_large_is_refused_before_it_is_read(
    as_admin: Client, trips: Table, settings: Settings
) -> None:
    settings.SLUICE_UPLOAD_BYTES_MAX = 2 << 20

    answer = send(as_admin, body=b"a" * (3 << 20))

    assert (answer.status_code, "larger than 2 MB" in answer.content.decode()) == (413, True)
    assert answer.wsgi_request._read_started is False  # type: ignore[attr-defined]
    assert files() == []


def test_a_form_without_a_file_or_a_token_stores_nothing(admin: User, trips: Table) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin)
    lax = Client()
    lax.force_login(admin)

    without_token = send(strict)
    without_file = lax.post(ADDRESS, {"x": "y"})

    assert without_token.status_code == 403
    assert (without_file.status_code, "Choose a file" in without_file.content.decode()) == (
        400,
        True,
    )
    assert files() == []
    assert not Upload.objects.exists()


def test_a_viewer_sees_no_form_and_sends_nothing(as_viewer: Client, trips: Table) -> None:
    page = as_viewer.get("/t/trips/write").content.decode()

    assert 'type="file"' not in page
    assert send(as_viewer).status_code == 403
    assert files() == []


@pytest.mark.parametrize("path", ["upload:00000000-0000-4000-8000-000000000000", "upload:x"])
def test_an_upload_that_is_missing_is_refused_with_the_next_step(
    as_admin: Client, trips: Table, path: str
) -> None:
    answer = as_admin.get(f"/t/trips/write?kind=csv&path={path}")

    assert (answer.status_code, "Upload the file again" in answer.content.decode()) == (400, True)
