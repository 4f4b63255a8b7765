"""Settings that keep promises: JSON only, no result backend, safe deployment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from controlplane.celery import app
from controlplane.settings.connections import database, redis_for_celery, redis_for_clients
from controlplane.settings.secrets import read_secrets

REPOSITORY = Path(__file__).resolve().parents[2]


def test_celery_takes_json_only_and_keeps_no_results() -> None:
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_serializer == "json"
    assert app.conf.result_backend is None
    assert app.conf.task_acks_late is True


def test_every_scheduled_task_exists() -> None:
    app.loader.import_default_modules()

    assert {entry["task"] for entry in app.conf.beat_schedule.values()} <= set(app.tasks)


def test_a_worker_starts_without_the_pages() -> None:
    program = (
        "import sys; from controlplane.celery import app; app.loader.import_default_modules(); "
        "print(len(app.tasks) > 20, 'controlplane.urls' in sys.modules)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    assert ended.stdout.split() == ["True", "False"], ended.stderr


@pytest.mark.parametrize(
    ("address", "engine", "name"),
    [
        ("/data/db.sqlite3", "sqlite3", "/data/db.sqlite3"),
        ("sqlite:///data/db.sqlite3", "sqlite3", "/data/db.sqlite3"),
        ("postgres://u:p%40ss@db:5433/sluice", "postgresql", "sluice"),
    ],
)
def test_a_database_is_one_text(address: str, engine: str, name: str) -> None:
    configured = database(address)

    assert configured["ENGINE"] == f"django.db.backends.{engine}"
    assert configured["NAME"] == name
    if engine == "sqlite3":
        assert configured["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
        assert "mmap" not in configured["OPTIONS"]["init_command"]
    else:
        assert (configured["PASSWORD"], configured["PORT"]) == ("p@ss", "5433")


def test_an_unknown_database_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured):
        database("oracle://x")


def test_parameters_of_an_address_reach_postgresql() -> None:
    remote = database("postgres://u@db/sluice?sslmode=verify-full&sslrootcert=/etc/ca.pem")
    local = database("postgres://u@/sluice?host=/run/postgresql")

    assert remote["OPTIONS"]["sslmode"] == "verify-full"
    assert remote["OPTIONS"]["sslrootcert"] == "/etc/ca.pem"
    assert (local["HOST"], "host" in local["OPTIONS"]) == ("/run/postgresql", False)
    with pytest.raises(ImproperlyConfigured, match="sslmod"):
        database("postgres://u@db/sluice?sslmod=require")


def test_a_socket_is_spelt_as_each_library_wants_it() -> None:
    assert redis_for_celery("unix:///run/r.sock") == "redis+socket:///run/r.sock"
    assert redis_for_clients("redis+socket:///run/r.sock") == "unix:///run/r.sock"
    assert redis_for_celery("redis://h:6379/0") == "redis://h:6379/0"


def test_secrets_come_from_the_environment_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets.json").write_text('{"worker_token": "file", "marker_secret": "m"}')
    monkeypatch.setenv("SLUICE_WORKER_TOKEN", "environment")
    monkeypatch.delenv("SLUICE_MARKER_SECRET", raising=False)

    secrets = read_secrets(tmp_path)

    assert (secrets.worker_token, secrets.marker_secret) == ("environment", "m")
    assert "environment" not in repr(secrets)


def test_writers_report_to_an_address_of_their_own_that_is_allowed_and_not_redirected(
    tmp_path: Path,
) -> None:
    """They call the web process directly, so the names and the TLS of a proxy are not theirs."""
    environment = {name: value for name, value in os.environ.items() if "SLUICE" not in name}
    environment |= {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
        "SLUICE_HOME": str(tmp_path),
        "SLUICE_SECRET_KEY": "of-a-test",
        "SLUICE_HTTPS": "1",
        "SLUICE_ALLOWED_HOSTS": "sluice.example",
        "SLUICE_PUBLIC_URL": "https://sluice.example",
        "SLUICE_REPORT_URL": "http://sluice-web:8000",
    }

    ended = subprocess.run(
        [sys.executable, "-c", _REPORT_PROGRAM],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stdout.splitlines() == [
        "http://sluice-web:8000/api/v1/reports/operations/",
        "https://sluice.example",
        "401",
        "301",
    ], ended.stderr


_REPORT_PROGRAM = """
import django
django.setup()
from django.conf import settings
from django.test import Client
print(settings.SLUICE_REPORT_URL)
print(settings.SLUICE_PUBLIC_URL)
writer = Client(SERVER_NAME="sluice-web")
report = "/api/v1/reports/operations/"
print(writer.post(report, "{}", content_type="application/json").status_code)
print(Client(SERVER_NAME="sluice.example").get("/login/").status_code)
"""


@pytest.mark.slow
def test_production_starts_only_with_a_secret_and_passes_the_deployment_check(
    tmp_path: Path,
) -> None:
    environment = {name: value for name, value in os.environ.items() if "SLUICE" not in name}
    environment |= {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
        "SLUICE_HOME": str(tmp_path),
        "SLUICE_HTTPS": "1",
    }
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]

    without = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, check=False
    )
    environment["SLUICE_SECRET_KEY"] = "k3-" + "abcdefghijklmnopqrstuvwxyz0123456789" * 2
    with_secret = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, check=False
    )

    assert without.returncode != 0
    assert b"no secret key" in without.stderr
    assert with_secret.returncode == 0, with_secret.stderr.decode()
