"""The server under supervision: started, seen, stopped, and light enough to be back at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers.markers.harness import SECRET, ServerProcess
from workers.markers.process import (
    await_health,
    drain,
    is_server,
    probe,
    sample,
    start_server,
    stop,
)
from workers.processes import find_free_port

pytestmark = pytest.mark.process


def test_a_started_server_answers_and_a_stopped_one_is_gone(own_server: ServerProcess) -> None:
    own_server.start()
    health = probe(own_server.url, 5.0)
    assert health is not None
    assert (health.status, health.pid) == ("ok", own_server.pid)
    assert os.getpgid(own_server.pid) == own_server.pid

    assert stop(own_server.pid, port=own_server.port)

    assert probe(own_server.url, 0.5) is None
    assert not is_server(own_server.pid, port=own_server.port)
    assert not stop(own_server.pid, port=own_server.port)


def test_a_killed_server_can_be_started_again(own_server: ServerProcess) -> None:
    killed = own_server.start().pid
    own_server.kill()

    own_server.start()

    health = await_health(own_server.url, 60.0)
    assert health is not None
    assert health.pid == own_server.pid != killed


def test_a_process_that_is_not_our_server_is_never_signalled() -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    assert not stop(stranger.pid, port=1)

    assert stranger.poll() is None
    stranger.communicate()


def test_a_server_on_another_port_is_not_ours_to_stop(own_server: ServerProcess) -> None:
    own_server.start()

    assert not stop(own_server.pid, port=own_server.port + 1)

    assert probe(own_server.url, 5.0) is not None


def test_nobody_there_is_an_answer_too() -> None:
    url = f"http://127.0.0.1:{find_free_port()}"

    assert probe(url, 0.5) is None
    assert sample(url, SECRET, 0.5) is None
    assert not drain(url, SECRET, 0.5)
    assert await_health(url, 0.2) is None


def test_a_server_that_drained_still_stops_cleanly(own_server: ServerProcess) -> None:
    own_server.start()

    assert drain(own_server.url, SECRET, 5.0)
    assert stop(own_server.pid, port=own_server.port)

    assert "Traceback" not in own_server.log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--root", "/"), "SLUICE_MARKER_SECRET is not set"),
        (("--root", "/no/such", "--allow-unauthenticated-loopback"), "root is no directory"),
        (
            ("--root", "/", "--host", "0.0.0.0", "--allow-unauthenticated-loopback"),
            "on a loopback address only",
        ),
    ],
)
def test_a_wrong_start_is_one_clear_line(options: tuple[str, ...], message: str) -> None:
    environment = {name: os.environ[name] for name in ("PATH",)}

    ended = subprocess.run(
        [sys.executable, "-m", "workers.markers.server", "--port", "1", *options],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[3],
        check=False,
    )

    assert ended.returncode == 1
    assert message in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_a_port_in_use_is_one_clear_line(own_server: ServerProcess) -> None:
    own_server.start()
    first = own_server.pid

    own_server.pid = start_server(
        port=own_server.port,
        roots=[own_server.root],
        secret=SECRET,
        log_path=own_server.root.parent / "second.log",
    )
    os.waitpid(own_server.pid, 0)

    own_server.pid = first
    log = (own_server.root.parent / "second.log").read_text()
    assert "cannot serve 127.0.0.1" in log
    assert "Traceback" not in log
    assert probe(own_server.url, 5.0) is not None


def test_the_server_loads_neither_spark_nor_django_and_the_client_no_server() -> None:
    heavy = "{'pyspark', 'django', 'pyarrow', 'pandas', 'aiohttp'}"
    script = (
        "import sys, workers.markers\n"
        f"assert not ({heavy} | {{'asyncio'}}) & set(sys.modules)\n"
        "import workers.markers.server\n"
        f"assert not {heavy} & set(sys.modules)\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[3])
