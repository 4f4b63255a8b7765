"""Uploads over REST: a file is stored, loaded by name of its id, and removed."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.operations.models import Operation
from controlplane.operations.states import OperationState
from controlplane.operations.tasks import forget
from controlplane.operations.upload_uses import do_remove_expired, do_remove_loaded
from controlplane.tables.models import Table
from controlplane.uploads.models import Upload
from controlplane.uploads.places import upload_folder
from controlplane.uploads.queries import get_place
from tests.controlplane.lake import Lake
from workers.errors import InvalidInput
from workers.jobs import WriteJob
from workers.storage.roots import rows_place_under_root

UPLOADS = "/api/v1/uploads/"
ROWS = b"id,ts,city\n1,5,Oslo\n2,6,Bergen\n"


@pytest.fixture
def api(client: Client, admin: User) -> Client:
    client.force_login(admin)
    return client


def send(api: Client, name: str = "rows.csv", body: bytes = ROWS) -> dict[str, Any]:
    answer = api.generic("POST", f"{UPLOADS}?name={quote(name)}", body, "application/octet-stream")
    assert answer.status_code == 201, answer.content
    sent: dict[str, Any] = answer.json()
    return sent


def write(api: Client, path: str, **more: Any) -> Any:
    body = {"source": {"kind": "csv", "path": path}, **more}
    return api.post("/api/v1/tables/trips/operations/", body, "application/json")


def files() -> list[str]:
    return sorted(file.name for file in Path(upload_folder()).rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("name", "text", "suffix"),
    [
        ("0.csv", "0.csv", ".csv"),
        ("my trips 2026.CSV.gz", "my trips 2026.CSV.gz", ".csv.gz"),
        ("række å 東京.parquet", "række å 東京.parquet", ".parquet"),
        ("../../etc/passwd", "../../etc/passwd", ""),
        ("a\u202egnp.json", "a_gnp.json", ".json"),
        ("no suffix", "no suffix", ""),
        ("x" * 300 + ".tsv", "x" * 251 + ".tsv", ".tsv"),
    ],
)
def test_any_name_is_text_and_no_part_of_a_path(
    api: Client, admin: User, root: Path, name: str, text: str, suffix: str
) -> None:
    sent = send(api, name)

    place = Path(upload_folder()) / str(admin.pk) / f"{sent['id']}{suffix}"
    assert (sent["name"], sent["bytes"], sent["path"]) == (text, len(ROWS), f"upload:{sent['id']}")
    assert place.read_bytes() == ROWS
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert files() == [place.name]
    assert api.get(UPLOADS).json() == [sent]
    assert AuditEvent.objects.get(what="upload.create").details["name"] == text


def test_a_form_is_stored_like_a_raw_body(api: Client, root: Path) -> None:
    file = BytesIO(ROWS)
    file.name = "trips.csv"

    answer = api.post(UPLOADS, {"file": file})

    assert (answer.status_code, answer.json()["name"]) == (201, "trips.csv")
    assert Path(get_place(Upload.objects.get())).read_bytes() == ROWS


@pytest.mark.parametrize("is_form", [True, False])
def test_what_is_too_large_is_refused_before_it_is_read(
    api: Client, root: Path, settings: Settings, is_form: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SLUICE_UPLOAD_BYTES_MAX = 100_000
    monkeypatch.setattr("controlplane.uploads.request_body._FORM_BYTES", 1_000)
    body = b"a" * 102_000

    if is_form:
        file = BytesIO(body)
        file.name = "large.csv"
        answer = api.post(UPLOADS, {"file": file})
    else:
        answer = api.generic("POST", f"{UPLOADS}?name=large.csv", body, "text/csv")

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert "the limit of this node" in answer.json()["detail"]
    assert answer.wsgi_request._read_started is False  # type: ignore[attr-defined]
    assert not Path(upload_folder()).exists() or files() == []


def test_a_body_without_a_length_is_cut_at_the_limit(
    api: Client, root: Path, settings: Settings
) -> None:
    settings.SLUICE_UPLOAD_BYTES_MAX = 1_000_000
    file = BytesIO(b"a" * 1_000_001)
    file.name = "large.csv"

    answer = api.post(UPLOADS, {"file": file})  # Shorter than a form may be, but not its file.

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert files() == []
    assert not Upload.objects.exists()


def test_a_full_disk_is_refused_and_leaves_nothing(
    api: Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.uploads.upload_file.FREE_BYTES_MIN", 1 << 60)

    answer = api.generic("POST", f"{UPLOADS}?name=a.csv", ROWS, "text/csv")

    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unavailable")
    assert "no space" in answer.json()["detail"]
    assert files() == []


@pytest.mark.parametrize(
    ("query", "body", "detail"),
    [("", ROWS, "must not be empty"), ("?name=a.csv", b"", "the file is empty")],
)
def test_no_name_and_no_content_are_refused(
    api: Client, root: Path, query: str, body: bytes, detail: str
) -> None:
    answer = api.generic("POST", f"{UPLOADS}{query}", body, "text/csv")

    assert (answer.status_code, detail in answer.json()["detail"]) == (400, True)
    assert not Path(upload_folder()).exists() or files() == []


def test_an_upload_is_previewed_suggested_and_written(api: Client, synced: Table) -> None:
    sent = send(api, "trips 2026.csv")

    source = {"kind": "csv", "path": sent["path"]}
    preview = api.post(
        "/api/v1/tables/trips/sources/preview/", {"source": source}, "application/json"
    ).json()
    suggestion = api.post(
        "/api/v1/new-tables/suggestion/", {"path": sent["path"]}, "application/json"
    ).json()
    answer = write(api, sent["path"])

    assert [column["name"] for column in preview["columns"]] == ["id", "ts", "city"]
    assert (preview["problem"], preview["path"]) == ("", sent["path"])
    assert suggestion["keys"][0]["is_unique"]
    assert answer.status_code == 202, answer.content
    job = WriteJob.from_message(Operation.objects.get().parameters["job"])
    assert job.source["path"] == get_place(Upload.objects.get())
    parameters = answer.json()["parameters"]
    assert (parameters["job"]["source"]["path"], parameters["upload_name"]) == (
        sent["path"],
        sent["name"],
    )
    audit = AuditEvent.objects.get(what="operation.write")
    assert audit.details["source"]["path"] == sent["path"]


@pytest.mark.parametrize("service", ["delete", "insert_overwrite", "insert_overwrite_table"])
def test_what_takes_data_away_is_planned_and_requested_with_an_upload(
    api: Client, synced: Table, service: str
) -> None:
    body = b"id\n1\n" if service == "delete" else ROWS
    path = send(api, body=body)["path"]
    address = f"/api/v1/tables/trips/services/{service}/"

    plan = api.post(f"{address}plan/", {"parameters": {"path": path}}, "application/json").json()
    words = {"plan_hash": plan["plan_hash"], "reason": "wrong", "table_name": "Trips"}
    answer = api.post(address, {"parameters": {"path": path}, **words}, "application/json")

    assert answer.status_code == 202, answer.content
    job = Operation.objects.get().parameters["job"]
    assert job["parameters"]["path"] == get_place(Upload.objects.get())
    assert answer.json()["parameters"]["job"]["parameters"]["path"] == path


def test_an_upload_of_another_user_is_as_one_that_is_not_there(
    api: Client, operator: User, synced: Table
) -> None:
    own = send(api)
    other = Client()
    other.force_login(operator)
    absent = "upload:00000000-0000-4000-8000-000000000000"

    answers = [write(other, path) for path in (own["path"], absent)]
    details = {answer.json()["detail"] for answer in answers}

    stored = get_place(Upload.objects.get())
    assert write(other, stored).status_code == 400
    assert other.get(UPLOADS).json() == []
    assert other.delete(f"{UPLOADS}{own['id']}/").status_code == 404
    assert [answer.status_code for answer in answers] == [400, 400]
    assert len(details) == 1
    assert not Operation.objects.exists()


def test_an_upload_stays_until_an_operation_has_loaded_it(api: Client, synced: Table) -> None:
    sent = send(api)
    operation_id = write(api, sent["path"]).json()["row"]["id"]
    operations = Operation.objects.filter(pk=operation_id)
    old = timezone.now() - timedelta(days=30)
    Upload.objects.update(created_at=old)

    for state in (OperationState.AWAITING, OperationState.RUNNING, OperationState.UNKNOWN):
        operations.update(state=state.value)
        Upload.objects.get().uses.update(used_at=old)
        assert (do_remove_loaded(), do_remove_expired()) == (0, 0), state
        assert api.delete(f"{UPLOADS}{sent['id']}/").status_code == 409
    operations.update(state=OperationState.FAILED.value)
    Upload.objects.get().uses.update(used_at=timezone.now())
    assert (do_remove_loaded(), do_remove_expired()) == (0, 0)  # It can be requested again.

    operations.update(state=OperationState.SUCCEEDED.value)
    assert do_remove_loaded() == 1


@pytest.mark.django_db(transaction=True)
def test_the_file_goes_with_the_upload(api: Client, synced: Table) -> None:
    used, unused, young = send(api), send(api), send(api)
    write(api, used["path"])
    Operation.objects.update(state=OperationState.SUCCEEDED.value)
    assert do_remove_loaded() == 1
    Upload.objects.filter(pk=unused["id"]).update(created_at=timezone.now() - timedelta(days=8))
    orphan = Path(upload_folder()) / "0" / "broken.csv.part"
    orphan.parent.mkdir()
    orphan.write_text("half")
    os.utime(orphan, (0, 0))

    forget()

    assert files() == [f"{young['id']}.csv"]
    assert write(api, used["path"]).status_code == 400
    assert api.delete(f"{UPLOADS}{young['id']}/").status_code == 204
    assert files() == []


def test_an_upload_that_was_removed_is_not_queued(api: Client, synced: Table) -> None:
    sent = send(api)
    Path(get_place(Upload.objects.get())).unlink()

    answer = write(api, sent["path"])

    assert (answer.status_code, "Upload the file again" in answer.json()["detail"]) == (400, True)


def test_a_schedule_names_no_upload(api: Client, synced: Table) -> None:
    source = {"kind": "csv", "path": send(api)["path"]}
    body = {"name": "nightly", "kind": "write", "parameters": {"source": source}, "every_s": 3600}

    answer = api.post("/api/v1/tables/trips/schedules/", body, "application/json")

    assert (answer.status_code, "loaded once" in answer.json()["detail"]) == (400, True)


def test_a_worker_reads_uploads_and_refuses_those_of_another_host(
    api: Client, lake: Lake, root: Path
) -> None:
    send(api)
    stored = get_place(Upload.objects.get())
    environment = {"SLUICE_TABLE_ROOTS": str(root), "SLUICE_UPLOAD_FOLDER": upload_folder()}

    assert rows_place_under_root(stored, environment) == os.path.realpath(stored)
    Path(stored).unlink()
    with pytest.raises(InvalidInput, match="not on the host of this worker"):
        rows_place_under_root(stored, environment)
    with pytest.raises(InvalidInput, match="outside the configured roots"):
        rows_place_under_root(stored, {"SLUICE_TABLE_ROOTS": str(root)})
