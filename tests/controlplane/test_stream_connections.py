"""More live streams than the web process has connections to PostgreSQL: others are answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import IO

import pytest

from bench.support.listeners import start_listener
from bench.support.postgres import postgres_cluster
from bench.support.redis_server import redis_server

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
CONNECTIONS = 2
STREAMS = 6
_VIEWER = """
import django
django.setup()
from django.contrib.auth.models import Group, User
from controlplane.accounts.tokens import create_token
viewer = User.objects.create_user("viewer")
viewer.groups.add(Group.objects.get(name="viewer"))
print(create_token(viewer, scope="read")[1])
"""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    with postgres_cluster() as database, redis_server("of-streams") as redis:
        yield {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
            "SLUICE_HOME": str(tmp_path),
            "SLUICE_DATABASE": database,
            "SLUICE_DATABASE_POOL": str(CONNECTIONS),
            "SLUICE_REDIS_URL": redis.address,
            "SLUICE_SECRET_KEY": "of-streams",
            "SLUICE_WORKER_TOKEN": "of-streams",
        }


def test_streams_keep_no_connection_to_the_database(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    _run(environment, "manage.py", "migrate", "--verbosity", "0")
    headers = {"Authorization": f"Token {_run(environment, '-c', _VIEWER).split()[-1]}"}
    with _web(environment, tmp_path / "web.log") as port, ExitStack() as stack:
        for _ in range(STREAMS):
            listener = HTTPConnection("127.0.0.1", port, timeout=20)
            stack.callback(listener.close)
            listener.request("GET", "/api/v1/events/", headers=headers)
            answer = listener.getresponse()
            assert (answer.status, answer.readline()) == (200, b"retry: 2000\n")
        asking = HTTPConnection("127.0.0.1", port, timeout=5)
        stack.callback(asking.close)
        asking.request("GET", "/api/v1/tables/", headers=headers)
        answer = asking.getresponse()
        assert (answer.status, json.load(answer)["results"]) == (200, [])


def _run(environment: Mapping[str, str], *words: str) -> str:
    return subprocess.run(
        (sys.executable, *words),
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout


@contextmanager
def _web(environment: Mapping[str, str], log: Path) -> Iterator[int]:
    def start(port: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        command = (
            *(sys.executable, "-m", "uvicorn", "controlplane.asgi:application"),
            *("--host", "127.0.0.1", "--port", str(port), "--lifespan", "off", "--no-access-log"),
            *("--timeout-graceful-shutdown", "1"),
        )
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)

    listener = start_listener(start, log)
    with listener.process:
        try:
            yield listener.port
        finally:
            listener.process.terminate()
