"""Threat T15: what is secret comes out nowhere: in no answer, row, message or log of the node,
not in the files of a table or of a run, not in the words of a process.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core import serializers
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks

import controlplane.celery
from controlplane.tables.models import Table
from tests.support.sinks import TOPIC
from workers.clock import SystemClock
from workers.errors import LakehouseError
from workers.given_connection import CONNECTION_VARIABLE, connection_environment
from workers.jobs import WriteJob
from workers.lakehouse import create_table, open_table
from workers.reporting.task_log import capture_task_log
from workers.spark.process import kill_driver, launch

CANARY = "c4n4ry"
VARIABLES = (
    "SLUICE_SECRET_KEY", "SLUICE_WORKER_TOKEN", "SLUICE_MARKER_SECRET", "SLUICE_METRICS_TOKEN",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "SLUICE_KAFKA_ORDERS", "AZURE_CLIENT_SECRET",
    "GOOGLE_API_KEY", "SPARK_CONNECT_AUTHENTICATE_TOKEN", "SLUICE_SMTP_PASSWORD",
)  # fmt: skip
ADDRESSES = {
    "SLUICE_DATABASE": "postgres://sluice:{}@db.example/sluice",
    "SLUICE_REDIS_URL": "redis://:{}@cache.example:6379/0",
    "SLUICE_LOCK_URL": "postgres://locks:{}@db.example/locks",
}


def canary(of: str) -> str:
    """Long, and no two alike."""
    return f"{CANARY}-{uuid.uuid5(uuid.NAMESPACE_OID, of).hex}"


def environment() -> dict[str, str]:
    named = {name: canary(name) for name in VARIABLES}
    connection = {
        "name": "orders",
        "kind": "postgresql",
        "settings": {
            "host": "db.example",
            "database": "shop",
            "username": "reader",
            "password": canary(CONNECTION_VARIABLE),
        },
    }
    return (
        named
        | {name: text.format(canary(name)) for name, text in ADDRESSES.items()}
        | connection_environment(connection)
    )


OPTIONS = {
    "sluice.lock.url": "redis://:{}@cache.example:6379/0",
    "hoodie.write.lock.zookeeper.password": "{}",
    "fs.s3a.secret.key": "{}",
    "sluice.api.token": "{}",
}
SINK_OPTIONS = {
    "sasl.password": "{}",
    "sasl.password.env": "{}",
    "sasl.jaas.config": 'PlainLoginModule required username="u" password="{}";',
    "ssl.key.password": "{}",
    "bootstrap.servers": "user:{}@broker:9092",
    "hoodie.sink.dead.letter.path": "s3://key:{}@lake/letters",
    "hoodie.sink.schema.file": "https://u:{}@registry/schemas",
}
SPARK = {
    "spark.hadoop.fs.s3a.secret.key": "{}",
    "spark.authenticate.secret": "{}",
    "spark.ssl.keyPassword": "{}",
    "spark.sql.shuffle.partitions": "{}",
}
PLACES = ("s3://key:{}@lake/t", "https://u:{}@host/t", "s3://lake/t?X-Amz-Signature={}")


def requests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Address and body, with a secret where somebody may put one by mistake."""
    writes, sinks = "/api/v1/tables/trips/operations/", "/api/v1/tables/trips/sinks/"
    source = {"kind": "csv", "path": "/data/rows.csv"}
    topic = {"hoodie.kafka.topic": TOPIC}
    for key, text in OPTIONS.items():
        yield writes, {"source": source, "options": {key: text.format(canary(f"write {key}"))}}
        yield sinks, {"sink_options": topic | {key: text.format(canary(f"sink {key}"))}}
    for key, text in SINK_OPTIONS.items():
        yield sinks, {"sink_options": topic | {key: text.format(canary(key))}}
    for key, text in SPARK.items():
        spark_conf = {key: text.format(canary(key))}
        yield writes, {"source": source, "spark_conf": spark_conf}
        yield sinks, {"sink_options": topic, "spark_conf": spark_conf}
    for number, text in enumerate(PLACES):
        place = text.format(canary(text))
        yield "/api/v1/tables/", {"location": place, "slug": f"new{number}"}
        yield writes, {"source": {"kind": "csv", "path": place}}
        yield "/api/v1/new-tables/suggestion/", {"path": place}


def test_no_secret_that_a_request_carries_comes_out_again(
    trips: Table, admin: User, as_admin: Client, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    sent: list[Any] = []
    monkeypatch.setattr(
        controlplane.celery.app, "send_task", lambda *args, **given: sent.append((args, given))
    )
    for name, text in environment().items():
        monkeypatch.setenv(name, text)
    all_requests = list(requests())

    shown: list[tuple[str, Any, bytes]] = []
    with django_capture_on_commit_callbacks(execute=True):
        for address, body in all_requests:
            answer = as_admin.post(address, json.dumps(body), "application/json")
            if CANARY in f"{answer.content.decode()} {dict(answer.headers)}":
                shown.append((address, body, answer.content))
    pages = ("/", "/operations", "/t/trips/live", "/t/trips/settings", "/audit", "/healthz")
    shown += [(page, {}, b"") for page in pages if CANARY in as_admin.get(page).content.decode()]

    rows = [
        model._meta.label
        for model in apps.get_models()
        if CANARY in serializers.serialize("json", model._default_manager.all())
    ]
    assert len(all_requests) + len(environment()) >= 40
    assert shown == []
    assert rows == []
    assert CANARY not in repr(sent)
    assert CANARY not in caplog.text


def test_no_secret_gets_into_the_files_of_a_table_or_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in environment().items():
        monkeypatch.setenv(name, text)
    job = WriteJob(
        operation_id="an-operation", table=str(tmp_path / "t"), run_dir=str(tmp_path / "run"),
        source={"kind": "csv", "path": "/x.csv"}, session_id=str(uuid.uuid4()),
    )  # fmt: skip
    schema = pa.schema([pa.field("id", pa.string())])
    with capture_task_log(job, "write", os.environ):
        table = create_table(tmp_path / "t", name="t", schema=schema, record_key=["id"])
        for options in ({}, {"sluice.lock.url": ADDRESSES["SLUICE_LOCK_URL"].format(canary("x"))}):
            try:
                open_table(table.location).write(pa.table({"id": ["1"]}, schema), options=options)
            except LakehouseError as refused:
                assert CANARY not in f"{refused} {refused.values}"  # noqa: PT017 - need not be one

    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert [path for path in written if CANARY.encode() in path.read_bytes()] == []


@pytest.mark.slow
def test_no_secret_is_a_word_of_a_driver_or_in_the_files_of_its_run(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    job = WriteJob(
        operation_id=str(uuid.uuid4()), table=str(tmp_path / "t"), run_dir=str(run_dir),
        source={"kind": "csv", "path": "/x.csv"}, session_id=str(uuid.uuid4()),
    )  # fmt: skip

    pid = launch(job, {**os.environ, **environment()})

    assert pid is not None
    words: list[str] = []
    ends_at, gives_up_at = time.monotonic() + 4, time.monotonic() + 60
    while psutil.pid_exists(pid) and time.monotonic() < ends_at:
        if not any(str(run_dir) in line for line in words):  # Its words are not there yet.
            ends_at = min(time.monotonic() + 4, gives_up_at)
        words += [repr(one.info["cmdline"]) for one in psutil.process_iter(["cmdline"])]
        time.sleep(0.1)
    kill_driver(run_dir, pid, SystemClock())
    assert any(str(run_dir) in line for line in words)
    assert [line for line in words if CANARY in line] == []
    assert [path for path in run_dir.rglob("*") if CANARY.encode() in path.read_bytes()] == []
