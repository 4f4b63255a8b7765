"""`/metrics`: who gets it, that its figures are right, and that many tables cost no more."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import generate_latest
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.instruments import COUNTED
from controlplane.live.seats import free_seat, take_seat
from controlplane.mirror.models import SyncMark
from controlplane.mirror.tasks import sync_tables
from controlplane.monitoring.exposition import COUNTS_VARIABLE, build_database_metrics, scrape
from controlplane.monitoring.health import evaluate_table_health
from controlplane.monitoring.models import TableHealth
from controlplane.operations.models import Operation
from controlplane.operations.moves import move
from controlplane.operations.states import OperationState
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.monitoring.conftest import (
    BASE,
    Scrape,
    busy_table,
    key,
    marker_server,
    samples,
)

REPOSITORY = Path(__file__).resolve().parents[3]
TRIPS = {"table": "trips", "namespace": "default"}
COUNT = """
import os, sys
from controlplane.instruments import HTTP_REQUESTS, LIVE_STREAMS, count_round
HTTP_REQUESTS.labels("tables", "GET", "200").inc(int(sys.argv[1]))
LIVE_STREAMS.inc()
count_round(looked_at=2, synced=1, left=0, took_s=0.1)
"""


@pytest.mark.parametrize("header", ["", "Bearer wrong", "Bearer ", "Token metrics-token-for-tests"])
def test_nobody_gets_figures_without_the_token_from_loopback_neither(
    client: Client, admin: User, header: str
) -> None:
    client.force_login(admin)

    answer = client.get("/metrics", headers={"Authorization": header}, REMOTE_ADDR="127.0.0.1")

    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == 'Bearer realm="metrics"'
    assert b"sluice_" not in answer.content


def test_where_no_token_is_configured_nobody_has_it(client: Client, settings: Settings) -> None:
    settings.SLUICE_METRICS_TOKEN = ""

    answer = client.get("/metrics", headers={"Authorization": "Bearer "})

    assert answer.status_code == 401


def test_figures_are_those_of_the_pages(db: None, scraped: Scrape) -> None:
    busy_table("trips")
    marker_server()

    got = scraped()

    assert got[key("sluice_table_last_commit_timestamp_seconds", **TRIPS)] == BASE.timestamp()
    assert got[key("sluice_table_synced_timestamp_seconds", **TRIPS)] == pytest.approx(
        timezone.now().timestamp(), abs=60
    )
    for name, wanted in (
        ("pending_instants", 1),
        ("conflicts_last_day", 1),
        ("active_writers", 1),
        ("unreadable", 0),
    ):
        assert got[key(f"sluice_table_{name}", **TRIPS)] == wanted, name
    assert got[key("sluice_table_unwell_checks", verdict="warn", **TRIPS)] == 1
    assert got[key("sluice_table_unwell_checks", verdict="bad", **TRIPS)] == 0
    assert got[key("sluice_sink_lag_records", sink="orders", **TRIPS)] == 20
    assert got[key("sluice_sink_epoch", sink="orders", **TRIPS)] == 3
    assert got[key("sluice_sink_open_transactions", sink="orders", **TRIPS)] == 1
    assert got[key("sluice_operations_open", kind="write", state="running")] == 1
    assert got[key("sluice_operations_queue_age_seconds")] == 0
    assert got[key("sluice_marker_server_up")] == 1
    assert got[key("sluice_marker_queue_depth")] == 4
    assert got[key("sluice_markers_created_total")] == 7
    assert got[key("sluice_marker_latency_seconds", quantile="0.5")] == 0.0025
    assert got[key("sluice_check_well", check="database")] == 1
    assert got[key("sluice_check_well", check="redis")] == 0


def test_the_queue_is_as_old_as_its_oldest_operation(db: None, scraped: Scrape) -> None:
    table = busy_table("trips")
    for minutes in (5, 1):
        queued = Operation.objects.create(table=table, kind="service", service=f"s{minutes}")
        asked_at = timezone.now() - timedelta(minutes=minutes)
        Operation.objects.filter(pk=queued.pk).update(requested_at=asked_at)

    got = scraped()

    assert got[key("sluice_operations_queue_age_seconds")] == pytest.approx(300, abs=60)
    assert got[key("sluice_operations_open", kind="service", state="queued")] == 2


def test_queries_are_the_same_for_one_table_and_for_many(db: None) -> None:
    busy_table("first")
    with CaptureQueriesContext(
        connection,
    ) as few:
        build_database_metrics(timezone.now())
    for number in range(30):
        busy_table(f"t{number}")
    with CaptureQueriesContext(connection) as many:
        build_database_metrics(timezone.now())

    assert len(many) == len(few) <= 20


def test_tables_with_the_newest_activity_have_labels_and_the_others_are_counted(
    db: None, scraped: Scrape, settings: Settings
) -> None:
    settings.SLUICE_METRICS_TABLES_MAX = 2
    for slug in ("b", "a", "d", "c", "e"):
        busy_table(slug)
    Table.objects.update(registered_at=datetime(2020, 1, 1, tzinfo=UTC))
    for slug, last in (("b", "20260102000000000"), ("d", "20260101000000000"), ("e", "")):
        SyncMark.objects.update_or_create(
            table=Table.objects.get(slug=slug), defaults={"last_completed_at": last}
        )
    Table.objects.filter(slug="e").update(
        sync_error="gone", registered_at=datetime(2026, 1, 3, tzinfo=UTC)
    )

    got = scraped()

    labelled = {dict(labels)["table"] for _, labels in got if "table" in dict(labels)}
    assert labelled == {"b", "e"}, "the newest commit, and the newest registration"
    assert got[key("sluice_tables")] == 5
    assert got[key("sluice_tables_without_labels")] == 3
    assert got[key("sluice_mirror_refused_tables")] == 1, "of all, labelled or not"
    assert got[key("sluice_sinks")] == 5


def test_requests_are_counted_by_route_and_never_by_path(
    db: None, client: Client, viewer: User, scraped: Scrape
) -> None:
    client.force_login(viewer)
    for path in ("/t/secret-table/", "/t/other-table/", "/api/v1/tables/", "/no/such/path", "/%0a"):
        client.get(path)
    client.generic("BREW", "/")

    got = scraped()

    routes = {dict(labels)["route"] for name, labels in got if name == "sluice_http_requests_total"}
    assert {"overview", "api:tables", "none"} <= routes
    assert not any("secret-table" in route or "/" in route for route in routes)
    methods = {dict(labels).get("method") for _, labels in got}
    assert "BREW" not in methods
    assert got[key("sluice_http_requests_total", route="overview", method="GET", status="404")] >= 2
    assert got[key("sluice_http_request_duration_seconds_count", route="api:tables")] >= 1


def test_what_the_mirror_did_in_a_round_is_counted(lake: Lake) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    before = counted()

    sync_tables()

    gained = {name: counted()[name] - before[name] for name in before}
    assert gained["sluice_mirror_rounds_total"] == 1
    assert gained["sluice_mirror_syncs_total"] == 1
    assert gained["sluice_mirror_left_total"] == 0
    assert gained["sluice_mirror_round_duration_seconds_count"] == 1


def counted() -> dict[str, float]:
    """What this process has counted of the mirror."""
    text = generate_latest(COUNTED).decode()
    return {one.name: one.value for one in samples(text) if "sluice_mirror" in one.name}


def test_an_operation_is_counted_once_and_only_when_its_end_stands(
    db: None, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    table = busy_table("trips")
    operation = Operation.objects.create(table=table, kind="rollback")
    labels = {"kind": "rollback", "state": "failed"}

    def ended(**given: str) -> float:
        name = "sluice_operation_duration_seconds_count"
        return COUNTED.get_sample_value(name, {**labels, **given}) or 0.0

    before, succeeded = ended(), ended(state="succeeded")
    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        move(operation.pk, OperationState.RUNNING)
        move(operation.pk, OperationState.FAILED)
        inside = ended()
    after = ended()
    with django_capture_on_commit_callbacks(execute=True):
        move(operation.pk, OperationState.SUCCEEDED)  # Storage shows that it was done after all.

    assert callbacks
    assert (inside - before, after - before) == (0, 1)
    assert ended(state="succeeded") == succeeded


def test_streams_that_are_open_are_counted_also_when_nobody_frees_their_seat() -> None:
    def open_now() -> float:
        return COUNTED.get_sample_value("sluice_live_streams") or 0.0

    before = open_now()
    freed, dropped = take_seat("ada"), take_seat("ada")
    both = open_now()
    free_seat(freed)
    free_seat(freed)
    one_left = open_now()
    del dropped
    gc.collect()

    assert (both - before, one_left - before, open_now() - before) == (2, 1, 0)


def test_processes_are_added_up_and_those_that_died_hold_nothing_open(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {**os.environ, COUNTS_VARIABLE: str(tmp_path)}
    for number in ("3", "4"):
        subprocess.run(
            [sys.executable, "-c", COUNT, number], cwd=REPOSITORY, env=environ, check=True
        )
    monkeypatch.setenv(COUNTS_VARIABLE, str(tmp_path))

    got = {sample.name: sample.value for sample in samples(scrape().decode())}

    assert got["sluice_http_requests_total"] == 7
    assert got["sluice_mirror_looks_total"] == 4
    assert "sluice_live_streams" not in got, "both processes have ended"


def test_the_health_of_a_table_is_judged_when_it_changed_and_now_and_then(
    db: None, make_old: Callable[[Table, timedelta], None]
) -> None:
    table = Table.objects.create(slug="trips", name="t", location="/lake/t", sync_error="gone")
    SyncMark.objects.create(table=table)
    assert evaluate_table_health() == 1
    assert table.health.verdicts == {"mirror": "bad"}
    assert evaluate_table_health() == 0, "nothing new, and it was just judged"

    make_old(table, timedelta(seconds=45))
    assert evaluate_table_health() == 0
    SyncMark.objects.update(changed_at=timezone.now())
    Table.objects.update(sync_error="", synced_at=timezone.now())
    assert evaluate_table_health() == 1
    table.health.refresh_from_db()
    assert table.health.verdicts == {}

    make_old(table, timedelta(minutes=6))
    SyncMark.objects.update(changed_at=None)
    assert evaluate_table_health() == 1


@pytest.fixture
def make_old() -> Callable[[Table, timedelta], None]:
    def make(table: Table, age: timedelta) -> None:
        TableHealth.objects.filter(table=table).update(looked_at=timezone.now() - age)

    return make


def test_a_round_ends_in_time_and_goes_on_behind(db: None) -> None:
    for number in range(4):
        Table.objects.create(slug=f"t{number}", name="t", location=f"/lake/{number}")

    judged = [evaluate_table_health(budget_s=0) for _ in range(5)]

    assert judged == [1, 1, 1, 1, 0]
