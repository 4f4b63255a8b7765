"""Roles of a node as processes of their own, without a supervisor, next to real PostgreSQL, Redis
and Spark. A write and a rollback run, and SIGTERM ends each role.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
import requests

from bench.support.postgres import postgres_cluster
from bench.support.redis_server import redis_server
from controlplane.node.places import PROJECT
from tests.support.spark_server import shared_server
from workers import create_table
from workers.lakehouse import open_table
from workers.markers.process import sample
from workers.processes import find_free_ports

pytestmark = [pytest.mark.slow, pytest.mark.process]

WAIT_S_MAX = 180.0
PUBLIC_NAME = "sluice.example"
ROLES = (
    ("markers",),
    ("web",),
    ("worker", "engine", "--drain", "5"),
    ("worker", "control", "mirror", "messages"),
    ("beat",),
)
SECRET = "marker-secret"


@dataclass
class Roles:
    """The processes of a node, each started by its own command."""

    environ: dict[str, str]
    logs: Path
    running: dict[tuple[str, ...], subprocess.Popen[bytes]] = field(default_factory=dict)

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=PROJECT,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
        )

    def manage_well(self, *words: str) -> str:
        ended = self.manage(*words)
        assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
        return ended.stdout

    def start(self, words: tuple[str, ...]) -> None:
        with (self.logs / f"{'-'.join(words)}.log").open("wb") as log:
            self.running[words] = subprocess.Popen(
                [sys.executable, "manage.py", *words],
                cwd=PROJECT,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop(self, words: tuple[str, ...]) -> int:
        process = self.running.pop(words)
        process.send_signal(signal.SIGTERM)
        return process.wait(WAIT_S_MAX)

    def is_ready(self, words: Sequence[str]) -> bool:
        checked = words[: words.index("--drain")] if "--drain" in words else words
        return self.manage("ping", *checked).returncode == 0

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Call the API as the proxy in front of the node does."""
        answer = requests.request(
            method,
            f"http://127.0.0.1:{self.environ['SLUICE_WEB_PORT']}/api/v1/{path}",
            json=body,
            headers={
                "Host": PUBLIC_NAME,
                "X-Forwarded-Proto": "https",
                "Authorization": f"Token {self.environ['TOKEN']}",
            },
            timeout=60,
        )
        assert answer.ok, (path, answer.status_code, answer.text)
        return answer.json()

    def await_end(self, operation: str) -> str:
        states = ("succeeded", "failed", "rolled_back", "cancelled")
        wait_until(lambda: self.state(operation) in states)
        return self.state(operation)

    def state(self, operation: str) -> str:
        return str(self.call("GET", f"operations/{operation}/")["row"]["state"])


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[Roles]:
    passed_on = ("PATH", "HOME", "LANG", "JAVA_HOME", "JAVA_TOOL_OPTIONS")
    web_port, marker_port, spark_port = find_free_ports(3)
    (tmp_path / "tables").mkdir()
    remote = shared_server().remote
    with postgres_cluster() as database, redis_server("queue-password") as queue:
        environ = {
            **{name: os.environ[name] for name in passed_on if name in os.environ},
            "SLUICE_HOME": str(tmp_path / "home"),
            "SLUICE_DATABASE": database,
            "SLUICE_REDIS_URL": queue.address,
            "SLUICE_SPARK_REMOTE": remote,
            "SLUICE_TABLE_ROOTS": str(tmp_path / "tables"),
            "SLUICE_SOURCE_ROOTS": str(tmp_path),
            "SLUICE_SECRET_KEY": "a key of a test, long enough to sign sessions with",
            "SLUICE_WORKER_TOKEN": "worker-token",
            "SLUICE_MARKER_SECRET": SECRET,
            "SLUICE_WEB_PORT": str(web_port),
            "SLUICE_SPARK_PORT": str(spark_port),
            "SLUICE_MARKER_PORT": str(marker_port),
            "SLUICE_MARKER_HOST": "127.0.0.2",
            "SLUICE_MARKER_URL": f"http://127.0.0.2:{marker_port}",
            # Behind a proxy that terminates TLS; writers report to the process itself.
            "SLUICE_HTTPS": "1",
            "SLUICE_ALLOWED_HOSTS": PUBLIC_NAME,
            "SLUICE_PUBLIC_URL": f"https://{PUBLIC_NAME}",
            "SLUICE_TRUSTED_PROXIES": "127.0.0.1",
            "SLUICE_DEMO": "0",
        }
        roles = Roles(environ, tmp_path)
        try:
            yield roles
        finally:
            for process in processes_of_home(environ):
                process.kill()
            for command in roles.running.values():
                command.wait(WAIT_S_MAX)


@pytest.mark.timeout(900)
def test_roles_that_are_started_one_by_one_are_a_node(roles: Roles, tmp_path: Path) -> None:
    prepare(roles, tmp_path)

    for words in ROLES:
        roles.start(words)
    for words in ROLES:
        with showing_logs(roles):
            wait_until(partial(roles.is_ready, words))

    write_and_roll_back(roles, tmp_path)
    status = roles.call("GET", "marker-server/")
    assert (status["state"], status["pid"]) == ("running", None)

    codes = {words[0:2]: roles.stop(words) for words in reversed(ROLES)}
    assert codes == {
        ("beat",): 0,
        ("worker", "control"): 0,
        ("worker", "engine"): 0,
        ("web",): -signal.SIGTERM,  # As uvicorn ends: by the signal, after its last answer.
        ("markers",): 0,
    }
    assert processes_of_home(roles.environ) == []


@pytest.mark.timeout(900)
def test_all_roles_in_one_command_are_a_node(roles: Roles, tmp_path: Path) -> None:
    del roles.environ["SLUICE_MARKER_URL"]
    prepare(roles, tmp_path)

    roles.start(("all",))
    with showing_logs(roles):
        for words in (("markers",), ("web",), ("worker", "engine"), ("beat",)):
            wait_until(partial(roles.is_ready, words))
        write_and_roll_back(roles, tmp_path)

    assert roles.stop(("all",)) == 0
    assert processes_of_home(roles.environ) == []


def prepare(roles: Roles, folder: Path) -> None:
    """Migrate, make a first user and a table. The web process refuses to start before."""
    refused = roles.manage("web")
    assert (refused.returncode, "run `migrate` once" in refused.stderr) == (1, True), refused
    roles.manage_well("migrate", "--no-input")
    roles.manage_well("user", "create", "ada", "--role", "admin")
    roles.environ["TOKEN"] = roles.manage_well("token", "create", "ada").strip()
    location = folder / "tables" / "people"
    columns: list[pa.Field[Any]] = [
        pa.field("id", pa.string()),
        pa.field("day", pa.int64()),
        pa.field("city", pa.string()),
    ]
    create_table(
        location, name="people", schema=pa.schema(columns), record_key=["id"], ordering=["day"]
    )
    roles.manage_well("table", "register", str(location), "--slug", "people")
    (folder / "people.csv").write_text("id,day,city\na,1,Oslo\n")


def write_and_roll_back(roles: Roles, folder: Path) -> None:
    table = open_table(folder / "tables" / "people")
    body = {"source": {"kind": "csv", "path": str(folder / "people.csv")}, "reason": "a test"}
    write = roles.call("POST", "tables/people/operations/", body)["row"]["id"]
    with showing_logs(roles):
        assert roles.await_end(write) == "succeeded", roles.call("GET", f"operations/{write}/")
    assert [row["city"] for row in table.read().to_pylist()] == ["Oslo"]
    counts = sample(f"http://127.0.0.2:{roles.environ['SLUICE_MARKER_PORT']}", SECRET, 30)
    assert counts is not None
    assert counts["markers_created"] == 1

    newest = {"instant": table.timeline()[-1].requested_at}
    plan = roles.call("POST", "tables/people/rollbacks/plan/", newest)
    confirmed = {**newest, "plan_hash": plan["plan_hash"], "table_name": "people"}
    rollback = roles.call(
        "POST", "tables/people/rollbacks/", {**confirmed, "reason": "the wrong day"}
    )["row"]["id"]
    with showing_logs(roles):
        assert roles.await_end(rollback) == "succeeded"
    assert table.read().num_rows == 0


@contextmanager
def showing_logs(roles: Roles) -> Iterator[None]:
    """Add the ends of the logs to a failure."""
    try:
        yield
    except AssertionError as error:
        ends = [
            f"{path.name}: {path.read_text(errors='replace')[-3000:]}"
            for path in sorted(roles.logs.glob("*.log"))
        ]
        raise AssertionError("\n".join([str(error), *ends])) from error


def processes_of_home(environ: dict[str, str]) -> list[psutil.Process]:
    own = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SLUICE_HOME") == environ["SLUICE_HOME"]:
                own.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return own


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.5)
