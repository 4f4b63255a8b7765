"""Threat T33: a source by a named connection reads what an admin opened to a namespace: no
other address, no file outside of the prefix or in a table, and nothing but rows of a database.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from bench.support.postgres import postgres_cluster
from bench.support.s3_server import BUCKET, shared_server
from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.connections.actions import (
    ConnectionWish,
    do_create_connection,
    do_grant_connection,
    do_test_connection,
)
from controlplane.errors import InvalidRequest
from controlplane.operations.actions import do_give_leave, do_request_write
from controlplane.operations.ask import Requester
from controlplane.operations.models import Operation, Schedule
from controlplane.operations.scheduled.actions import do_make_schedule
from controlplane.operations.scheduled.turns import run_due_schedules
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.operations.source_previews import preview_source
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import sent_jobs
from workers.clock import SystemClock
from workers.connections import BucketConnection
from workers.errors import InvalidInput
from workers.jobs import driver_job
from workers.lakehouse import open_table
from workers.loading.source_files import files_here, rows_in_bucket
from workers.query_inputs import DatabaseSource
from workers.reporting.task_log import log_masker
from workers.spark.inputs import open_source
from workers.storage.opener import open_with
from workers.tasks import launch_write
from workers.tasks.authorization import request_job_authorization

pytestmark = [pytest.mark.process, pytest.mark.sampled(every=2)]
PASSWORD = "c4n4ry-of-a-database"
LINES = b'{"id": "7", "ts": 9, "city": "Turku"}\n'
S3 = {"kind": "json", "connection": "drop", "path": "2026/new.json"}
QUERY = {"kind": "postgresql", "connection": "erp", "query": "SELECT id, ts, city FROM trips"}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres_cluster() as address:
        with psycopg.connect(address) as session:
            session.execute("CREATE TABLE trips (id text, ts bigint, city text)")
            session.execute("INSERT INTO trips VALUES ('7', 9, 'Turku')")
        yield address


@pytest.fixture
def erp(database: str, admin: User) -> str:
    """The connection `erp`, which the namespace `default` may use."""
    settings = {
        "host": "127.0.0.1",
        "port": urlsplit(database).port,
        "database": "postgres",
        "username": "sluice",
        "sslmode": "disable",
    }
    secrets = {"password": PASSWORD}
    wish = ConnectionWish(name="erp", kind="postgresql", settings=settings, secrets=secrets)
    do_create_connection(wish, by=admin)
    do_grant_connection("erp", ["default"], by=admin)
    return "erp"


@pytest.fixture
def drop(admin: User) -> BucketConnection:
    """The bucket of the connection `drop`, which the namespace `default` may use."""
    environment = shared_server().environment
    opened = BucketConnection(
        bucket=BUCKET,
        prefix=f"drop-{uuid.uuid4().hex}",
        endpoint=environment["AWS_ENDPOINT_URL"],
        access_key_id=environment["AWS_ACCESS_KEY_ID"],
        secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )
    settings = {
        key: getattr(opened, key) for key in ("bucket", "prefix", "endpoint", "access_key_id")
    }
    secrets = {"secret_access_key": opened.secret_access_key}
    wish = ConnectionWish(name="drop", kind="s3", settings=settings, secrets=secrets)
    do_create_connection(wish, by=admin)
    do_grant_connection("drop", ["default"], by=admin)
    open_with(opened, opened.location).put("2026/new.json", LINES)
    return opened


def request(lake: Lake, by: User, source: dict[str, Any]) -> Operation:
    return do_request_write(table=lake.row, parameters={"source": source}, by=by)


@pytest.mark.parametrize("source", [S3, QUERY], ids=["bucket", "database"])
def test_preview_shows_rows_and_the_test_of_a_connection_reaches_it(
    synced: Table, operator: User, admin: User, drop: object, erp: str, source: dict[str, Any]
) -> None:
    preview = preview_source(synced, source, by=operator)

    assert (preview.problem, preview.rows_sampled, preview.is_whole) == ("", 1, True)
    assert {column.name: column.type for column in preview.columns} == {
        "id": "string",
        "ts": "bigint",
        "city": "string",
    }
    assert do_test_connection(source["connection"], by=admin).problem == ""


@pytest.mark.parametrize("source", [S3, QUERY], ids=["bucket", "database"])
def test_connection_of_another_namespace_is_refused_like_one_that_there_is_not(
    drop: object, erp: str, client: Client, source: dict[str, Any]
) -> None:
    Table.objects.create(slug="far", name="far", namespace="far", location="/lake/far")
    gus = User.objects.create_user("gus")
    Grant.objects.create(user=gus, namespace="far", role="operator", granted_by="a test")
    client.force_login(gus)
    other = "erp" if source["connection"] == "drop" else "drop"  # There, of another kind.

    answers = {
        client.post(f"/api/v1/tables/far/{address}/", {"source": body}, "application/json")
        .content.replace(name.encode(), b"NAME")
        .decode()
        for address in ("operations", "sources/preview")
        for name in (source["connection"], other, "there-is-none")
        for body in [{**source, "connection": name}]
    }

    assert len(answers) == 1
    assert "is granted to the namespace" in answers.pop()


@pytest.mark.parametrize(
    "source",
    [
        *({**S3, key: "x"} for key in ("endpoint", "bucket", "prefix", "region", "access_key_id")),
        *({**QUERY, key: "x"} for key in ("host", "port", "username", "password", "sslmode")),
        {**QUERY, "table": "public.trips"},
        {**QUERY, "query": ""},
        {**QUERY, "query": 7},
        {**QUERY, "connection": ""},
        {**QUERY, "connection": ["erp"]},
        {**S3, "connection": {"name": "drop"}},
        {**S3, "path": ["2026/new.json"]},
        *(
            {**S3, "path": path}
            for path in (
                "../other.json",
                "/etc/passwd",
                "2026/../../x.json",
                "",
                "*/new.json",
                "../*",
            )
        ),
    ],
    ids=lambda source: str(source)[:90],
)
def test_request_overrides_no_address_and_leaves_no_prefix(
    lake: Lake, operator: User, drop: BucketConnection, erp: str, source: dict[str, Any]
) -> None:
    for refused_by in (
        lambda: request(lake, operator, source),
        lambda: preview_source(lake.row, source, by=operator),
    ):
        with pytest.raises(InvalidRequest) as refused:
            refused_by()
        assert drop.prefix not in str(refused.value)
    assert Operation.objects.count() == 0


def test_folder_of_a_connection_is_listed_below_its_prefix(
    lake: Lake, operator: User, drop: BucketConnection, tmp_path: Path
) -> None:
    open_with(drop, drop.location).put("2026/old.json", LINES)

    for path in ("2026/", "2026/*.json"):
        preview = preview_source(lake.row, {**S3, "path": path}, by=operator)
        assert (preview.files, preview.rows_sampled) == (["new.json", "old.json"], 2)
    copies = files_here(
        rows_in_bucket(drop, "2026/o*", {}, "json"), tmp_path, bytes_max=100, connection=drop
    )
    assert [(file.name, file.size) for file in copies] == [("old.json", len(LINES))]
    files = rows_in_bucket(drop, "2026/", {}, "json")
    with pytest.raises(InvalidInput, match="too large"):
        files_here(files, tmp_path, bytes_max=len(LINES) + 1, connection=drop)
    with pytest.raises(InvalidRequest, match="the source folder has no file of rows") as refused:
        preview_source(lake.row, {**S3, "path": "2027/"}, by=operator)
    assert drop.prefix not in str(refused.value)


def test_file_in_a_table_of_the_bucket_is_refused_before_it_is_read_and_as_its_job_begins(
    lake: Lake, operator: User, drop: BucketConnection, settings: Settings
) -> None:
    """Threat T29 too."""
    other = {**S3, "path": "2026/other.json"}
    in_table = {**S3, "path": "table/a.json"}
    bucket = open_with(drop, drop.location)
    bucket.put("2026/other.json", LINES)
    bucket.put("table/a.json", LINES)
    waits = request(lake, operator, S3)
    Table.objects.create(slug="new", name="new", location=f"{drop.location}/2026")

    assert do_give_leave(waits.pk) is False
    waits.refresh_from_db()
    assert "table" in waits.message
    with pytest.raises(InvalidRequest, match="table"):
        request(lake, operator, other)
    bucket.put("table/.hoodie/hoodie.properties", b"")  # A table that is not registered.
    with pytest.raises(InvalidRequest, match="table"):
        preview_source(lake.row, in_table, by=operator)
    settings.SLUICE_TABLE_ROOTS = (*settings.SLUICE_TABLE_ROOTS, f"{drop.location}/table")
    with pytest.raises(InvalidRequest, match="table"):
        request(lake, operator, in_table)


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize("source", [S3, QUERY], ids=["bucket", "database"])
def test_worker_opens_the_connection_while_its_namespace_may_use_it(
    lake: Lake,
    operator: User,
    admin: User,
    viewer: User,
    drop: object,
    erp: str,
    client: Client,
    tmp_path: Path,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    source: dict[str, Any],
) -> None:
    sent_jobs()
    wish = ScheduleWish(name="a", kind="write", parameters={"source": source}, every_s=3600)
    do_make_schedule(lake.row, wish, owner=operator, by=Requester.person(operator))
    with django_capture_on_commit_callbacks(execute=True):
        operation = request(lake, operator, source)
    [(_, message)] = sent_jobs()
    job = driver_job(message)

    variables = request_job_authorization(job, SystemClock())
    assert variables is not None
    environment = {**os.environ, **variables}
    about = {"table": lake.table, "writer": "w", "scratch": tmp_path}
    opened = open_source(source, environment=environment, **about)  # type: ignore[arg-type]
    if isinstance(opened, DatabaseSource):
        opened.compute()
        assert pq.read_table(opened.file).to_pylist() == [{"id": "7", "ts": 9, "city": "Turku"}]
        assert PASSWORD not in repr(opened)
    else:
        assert (tmp_path / "source.json").read_bytes() == LINES
    with pytest.raises(InvalidInput, match="not given the connection"):
        open_source(source, environment=os.environ, **about)  # type: ignore[arg-type]
    secret = PASSWORD if source is QUERY else shared_server().environment["AWS_SECRET_ACCESS_KEY"]
    assert secret not in json.dumps(message)
    assert log_masker(job, environment).mask(f"x {secret} y") == "x *** y"
    client.force_login(viewer)
    text = client.get(f"/api/v1/operations/{operation.pk}/").content.decode()
    assert "SELECT" not in text
    assert secret not in text

    do_grant_connection(source["connection"], ["elsewhere"], by=admin)
    launch_write.apply(args=[message]).get()
    operation.refresh_from_db()
    assert operation.state == "refused"
    assert "is granted to the namespace" in operation.message
    Schedule.objects.update(next_due_at="2020-01-01T00:00:00Z")
    [run] = run_due_schedules()
    assert run.outcome == "not_run"


def test_shell_loads_rows_and_files_by_a_connection_of_the_namespace(
    drop: BucketConnection, erp: str, admin: User, root: Path
) -> None:
    open_with(drop, drop.location).put("people.csv", b"id,city\n1,Oslo\n")
    database = ("--connection", "erp", "--source-table", "public.trips", "--name", "rides")

    call_command("write", *database)
    call_command("write", "people.csv", "--connection", "drop", "--no-spark")

    assert open_table(root / "rides").read().to_pylist() == [{"id": "7", "ts": 9, "city": "Turku"}]
    assert open_table(root / "people").read().to_pylist() == [{"id": 1, "city": "Oslo"}]
    do_grant_connection("erp", ["elsewhere"], by=admin)
    with pytest.raises(CommandError, match="is granted to the namespace"):
        call_command("write", *database)


def test_query_of_a_preview_is_in_the_audit_and_changes_nothing(
    synced: Table, operator: User, erp: str, database: str
) -> None:
    for query in ("DELETE FROM trips RETURNING *", "SELECT 1; DELETE FROM trips"):
        with pytest.raises(InvalidRequest):
            preview_source(synced, {**QUERY, "query": query}, by=operator)
        entry = AuditEvent.objects.filter(what="connection.read").latest("pk")
        assert (entry.who, entry.details["query"]) == (operator.get_username(), query)

    with psycopg.connect(database) as session:
        assert session.execute("SELECT count(*) FROM trips").fetchall() == [(1,)]
