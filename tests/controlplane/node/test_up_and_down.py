"""A whole node on ports of its own: started, hurt, stopped, started again, in real processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests

from controlplane.node.identity import Identity, read_identity
from controlplane.node.living import processes_of
from controlplane.node.places import PROJECT, Places
from workers.lakehouse import open_table
from workers.processes import find_free_ports, start_on_free_ports

WAIT_S_MAX = 60.0
PORT_VARIABLES = ("SLUICE_WEB_PORT", "SLUICE_SPARK_PORT", "SLUICE_MARKER_PORT")
WRITER = "import sys, time; time.sleep(600)"


@dataclass(frozen=True, slots=True)
class Node:
    """One node as a person in a shell uses it."""

    home: Path
    environ: dict[str, str]

    def start(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the first `up`, and again with other ports if another process has one."""

        def up(*ports: int) -> subprocess.CompletedProcess[str]:
            self.environ.update(zip(PORT_VARIABLES, map(str, ports), strict=True))
            done = self.manage("up", *options)
            assert done.returncode == 0, done.stdout + done.stderr
            return done

        return start_on_free_ports(up, count=len(PORT_VARIABLES))

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=PROJECT,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    @property
    def identity(self) -> Identity:
        identity = read_identity(Places(self.home).identity)
        assert identity is not None
        return identity

    def processes(self) -> list[psutil.Process]:
        return processes_of(Places(self.home), self.identity)

    def get(self, path: str, **headers: str) -> requests.Response:
        return requests.get(f"{self.identity.url}{path}", headers=headers, timeout=30)

    def pid_of(self, word: str) -> int:
        return next(one.pid for one in self.processes() if word in " ".join(one.cmdline()))


@contextmanager
def node_in(home: Path) -> Iterator[Node]:
    passed_on = ("PATH", "HOME", "LANG", "JAVA_HOME", "JAVA_TOOL_OPTIONS")
    ports = dict(zip(PORT_VARIABLES, map(str, find_free_ports(3)), strict=True))
    given = {name: os.environ[name] for name in passed_on if name in os.environ}
    node = Node(home, {**given, **ports, "SLUICE_HOME": str(home)})
    yield node
    node.manage("down")
    assert not Places(node.home).identity.exists() or node.processes() == []


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_in(tmp_path / "home") as node:
        yield node


@pytest.fixture(scope="module")
def running_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, str]]:
    """A node that runs, and what `up` printed. It takes a minute to start, so tests share it."""
    with node_in(tmp_path_factory.mktemp("node") / "home") as node:
        yield node, node.start("--no-demo").stdout


def test_up_on_a_port_in_use_says_so_and_leaves_nothing(node: Node) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", int(node.environ["SLUICE_WEB_PORT"])))
        listener.listen()

        up = node.manage("up")

    port = node.environ["SLUICE_WEB_PORT"]
    assert up.returncode == 1
    assert up.stderr.splitlines() == [
        "CommandError: Sluice did not start.",
        (
            f"port {port} cannot be used (Address already in use); "
            "stop what listens there, or set SLUICE_WEB_PORT"
        ),
    ]
    assert node.processes() == []
    assert not Path(node.identity.sockets).exists()


def test_up_without_java_says_so(node: Node, tmp_path: Path) -> None:
    environ = {**node.environ, "PATH": str(tmp_path)}
    environ.pop("JAVA_HOME", None)

    up = Node(node.home, environ).manage("up")

    assert up.returncode == 1
    assert "no java on the PATH; install Java 17 or newer" in up.stderr
    assert "Traceback" not in up.stderr


def test_down_and_status_of_a_node_that_never_was(node: Node) -> None:
    down, status = node.manage("down"), node.manage("status")

    assert (down.returncode, down.stdout) == (0, "Sluice is not running.\n")
    assert (status.returncode, status.stdout) == (1, "Sluice is not running.\n")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_rollback_that_an_admin_requests_is_run_by_celery(
    running_node: tuple[Node, str], tmp_path: Path
) -> None:
    node, said = running_node
    for day, city in (("1", "Oslo"), ("2", "Bergen")):
        source = tmp_path / "people.csv"
        source.write_text(f"id,day,city\na,{day},{city}\n")
        write = node.manage("write", str(source), "--no-spark", "--ordering", "day")
        assert write.returncode == 0, write.stdout + write.stderr
    table = open_table(node.home / "tables" / "people")
    newest = table.timeline()[-1].requested_at
    admin = log_in(node, *login(said))

    plan = f"{node.identity.url}t/people/rollback/{newest}"
    wait_until(lambda: admin.get(plan, timeout=30).status_code == 200, seconds=WAIT_S_MAX)
    form = hidden_fields(admin.get(plan, timeout=30))
    form |= {"typed_name": "people", "reason": "loaded the wrong day"}
    requested = admin.post(plan, data=form, headers={"Referer": plan}, timeout=30)
    assert "/operations/" in requested.url, requested.text
    operation = requested.url.rstrip("/").rsplit("/", 1)[1]

    def state() -> str:
        address = f"{node.identity.url}api/v1/operations/{operation}/"
        return str(admin.get(address, timeout=30).json()["row"]["state"])

    wait_until(lambda: state() in ("succeeded", "failed"), seconds=2 * WAIT_S_MAX)
    assert state() == "succeeded"
    assert newest not in [instant.requested_at for instant in table.timeline()]
    assert [row["city"] for row in table.read().to_pylist()] == ["Oslo"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_node_starts_survives_kills_stops_and_continues(running_node: tuple[Node, str]) -> None:
    node, said = running_node
    log = node.home / "log" / "up.log"
    assert re.sub("password .*", "password", said).splitlines() == [
        f"Starting Sluice; progress is in {log}",
        f"Sluice is up: {node.identity.url}",
        "Log in as user admin, password",
        "`make down` stops the node and keeps its data.",
    ]
    assert "web      ready" in log.read_text()
    log_in(node, *login(said))
    wait_until(lambda: node.get("readyz").status_code == 200, seconds=WAIT_S_MAX)
    wait_until(lambda: "sluice_mirror_rounds_total" in scraped(node), seconds=WAIT_S_MAX)
    assert node.get("metrics").status_code == 401

    again = node.manage("up", "--no-demo")
    assert again.stdout == f"Sluice is running already: {node.identity.url}\n"
    assert node.manage("status").returncode == 0

    for word in ("workers.markers.server", "uvicorn", "redis-server"):
        os.kill(node.pid_of(word), signal.SIGKILL)
    wait_until(lambda: node.manage("status").returncode == 0, seconds=WAIT_S_MAX)

    # A supervisor that is killed leaves its children; the next `up` ends them and starts anew.
    os.kill(node.pid_of("supervisord"), signal.SIGKILL)
    left = {process.pid for process in node.processes()}
    up = node.manage("up", "--no-demo")
    assert up.returncode == 0, up.stdout + up.stderr
    assert "processes that an earlier run left behind" in log.read_text()
    assert not left & {process.pid for process in node.processes()}
    log_in(node, *login(up.stdout))

    writer = start_writer(node)
    down = node.manage("down")
    assert "stopping 1 writers" in down.stdout
    assert writer.wait(WAIT_S_MAX) == -signal.SIGTERM
    assert node.processes() == []
    assert not Path(node.identity.sockets).exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_node_that_was_stopped_starts_again(node: Node) -> None:
    node.start("--no-demo")
    assert node.manage("down").returncode == 0

    up = node.manage("up", "--no-demo")

    assert up.returncode == 0, up.stdout + up.stderr
    assert "left behind" not in (node.home / "log" / "up.log").read_text()
    log_in(node, *login(up.stdout))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_node_in_the_foreground_ends_with_its_supervisor_and_stops_by_a_signal(
    node: Node,
) -> None:
    """What `deploy/sluice.service` counts on: systemd starts again what ends with an error."""
    with foreground(node) as command:
        os.kill(node.pid_of("supervisord"), signal.SIGKILL)
        _, said = command.communicate(timeout=WAIT_S_MAX)

        assert (command.returncode, node.processes()) == (1, [])
        assert "the supervisor of this node has ended" in said

    with foreground(node) as command:
        command.send_signal(signal.SIGTERM)
        said, errors = command.communicate(timeout=2 * WAIT_S_MAX)

        assert (command.returncode, node.processes(), errors) == (0, [], "")
        assert "stopping the services" in said


@contextmanager
def foreground(node: Node) -> Iterator[subprocess.Popen[str]]:
    """The command, when its node is up; what it says of the login has no password."""
    words = [sys.executable, "manage.py", "up", "--foreground", "--no-demo"]
    with subprocess.Popen(
        words,
        cwd=PROJECT,
        env=node.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdout is not None
        try:
            for line in command.stdout:
                assert "password" not in line
                if line.startswith("Sluice is up"):
                    break
            yield command
        finally:
            command.kill()


def hidden_fields(page: requests.Response) -> dict[str, str]:
    assert page.status_code == 200, page.text
    tags = re.findall(r"<input[^>]*>", page.text)
    hidden = [dict(re.findall(r'([a-z]+)="([^"]*)"', tag)) for tag in tags]
    return {tag["name"]: tag["value"] for tag in hidden if tag.get("type") == "hidden"}


def login(said: str) -> tuple[str, str]:
    login_line = re.search(r"Log in as user (\w+), password (\S+)", said)
    assert login_line is not None, said
    return login_line[1], login_line[2]


def scraped(node: Node) -> str:
    """As Prometheus asks: with the token that a person in a shell gets."""
    token = node.manage("metrics", "--token").stdout.strip()
    answer = node.get("metrics", Authorization=f"Bearer {token}")
    assert answer.status_code == 200, answer.text
    return answer.text


def log_in(node: Node, user: str, password: str) -> requests.Session:
    session = requests.Session()
    page = session.get(f"{node.identity.url}login/", timeout=30)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert token is not None, page.text
    session.post(
        f"{node.identity.url}login/",
        data={"username": user, "password": password, "csrfmiddlewaretoken": token[1]},
        headers={"Referer": node.identity.url},
        timeout=30,
    )
    home = session.get(node.identity.url, timeout=30)
    assert home.status_code == 200
    assert "/login/" not in home.url
    return session


def start_writer(node: Node) -> subprocess.Popen[bytes]:
    """A process of its own group, as Celery starts a writer."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, "workers.spark.runner"],
        env={**node.environ, "SLUICE_NODE": node.identity.node},
        start_new_session=True,
    )


def wait_until(is_so: Callable[[], bool], *, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, f"not so after {seconds} s"
        time.sleep(0.3)
