"""The marker server under supervision: a real process that is started, killed, hung, drained,
started again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from psutil import Process
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.celery import SUPERVISE_EVERY_S
from controlplane.errors import NotAllowedNow
from controlplane.mirror.models import ServerSample
from controlplane.operations.marker_server import do_restart_marker_server, shut_down, supervise
from controlplane.operations.models import MarkerServer
from controlplane.operations.queries import marker_server_status
from workers.markers import process
from workers.processes import find_free_port

pytestmark = pytest.mark.process

RESTART_S_MAX = 10
WAIT_S_MAX = 60.0
TIMEOUTS = ("PROBE", "START", "DRAIN")


@pytest.fixture
def port(root: Path, db: None, settings: Settings) -> Iterator[int]:
    """A port for the server; a slow machine has a minute for each of its answers."""
    settings.SLUICE_MARKER_PORT = port = find_free_port()
    for name in TIMEOUTS:
        setattr(settings, f"SLUICE_MARKER_{name}_TIMEOUT_S", WAIT_S_MAX)
    yield port
    shut_down()


def pid() -> int:
    server_pid = MarkerServer.objects.get().pid
    assert server_pid is not None
    return server_pid


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def kill(server_pid: int, port: int) -> None:
    os.kill(server_pid, signal.SIGKILL)
    wait_until(lambda: not process.is_server(server_pid, port=port))


def test_it_is_started_sampled_and_left_running(port: int) -> None:
    assert supervise() == "running"
    first = pid()
    assert supervise() == "running"

    status = marker_server_status()
    assert (status.state, status.pid, status.restarts) == ("running", first, 0)
    assert status.latest is not None
    assert status.latest.up
    assert process.is_server(first, port=port)


def test_it_has_the_batch_settings_of_the_node(port: int, settings: Settings) -> None:
    settings.SLUICE_MARKER_INTERVAL_MS, settings.SLUICE_MARKER_THREADS = 200, 3

    supervise()

    command = Process(pid()).cmdline()
    assert command[command.index("--interval-ms") + 1] == "200"
    assert command[command.index("--num-threads") + 1] == "3"


def test_before_its_first_start_it_has_not_failed_and_after_its_death_it_has(port: int) -> None:
    supervise()
    assert set(ServerSample.objects.values_list("up", flat=True)) == {True}

    kill(pid(), port)
    supervise()

    assert set(ServerSample.objects.values_list("up", flat=True)) == {True, False}


def test_killed_it_answers_again_after_the_next_look(port: int) -> None:
    supervise()
    killed = pid()
    kill(killed, port)

    assert supervise() == "running"

    assert pid() != killed
    assert MarkerServer.objects.get().restarts == 1
    assert process.probe(process.server_url(port), WAIT_S_MAX) is not None
    assert ServerSample.objects.filter(up=False).exists(), "the gap is shown"


def test_the_next_look_and_a_start_take_at_most_ten_seconds() -> None:
    from controlplane.settings import base as default

    longest_s = (
        SUPERVISE_EVERY_S
        + default.SLUICE_MARKER_PROBE_TIMEOUT_S
        + default.SLUICE_MARKER_START_TIMEOUT_S
    )

    assert longest_s <= RESTART_S_MAX


def test_one_that_hangs_is_replaced(port: int, settings: Settings) -> None:
    supervise()
    hung = pid()
    settings.SLUICE_MARKER_PROBE_TIMEOUT_S = 1.0  # It will not answer.
    os.kill(hung, signal.SIGSTOP)
    long_ago = timezone.now() - timedelta(seconds=8)
    ServerSample.objects.update(at=long_ago)
    MarkerServer.objects.update(started_at=long_ago)

    wait_until(lambda: supervise() == "running" and pid() != hung)

    assert not process.is_server(hung, port=port)


def test_an_admin_restarts_it_after_a_drain(port: int, admin: User) -> None:
    supervise()
    before = pid()

    do_restart_marker_server(admin)

    assert supervise() == "running"
    assert pid() != before
    assert AuditEvent.objects.filter(what="marker_server.restart", who="ada").exists()


def test_drained_by_somebody_else_it_is_started_anew(port: int, settings: Settings) -> None:
    supervise()
    before = pid()
    process.drain(process.server_url(port), settings.SLUICE_MARKER_SECRET, WAIT_S_MAX)

    assert supervise() == "draining"
    wait_until(lambda: supervise() == "running")

    assert pid() != before


def test_while_one_process_supervises_another_does_not(port: int) -> None:
    MarkerServer.objects.create(port=port, running_until=timezone.now() + timedelta(seconds=20))

    assert supervise() == "busy"


def test_without_a_secret_none_is_started(port: int, settings: Settings, admin: User) -> None:
    settings.SLUICE_MARKER_SECRET = ""

    assert supervise() == "down"
    with pytest.raises(NotAllowedNow):
        do_restart_marker_server(admin)


def test_after_shut_down_nothing_runs(port: int) -> None:
    supervise()
    running = pid()

    shut_down()

    assert not process.is_server(running, port=port)
    assert marker_server_status().state == "down"


@pytest.fixture
def elsewhere(root: Path, db: None, settings: Settings) -> Iterator[int]:
    """A server that another supervisor started on another address; this node knows its URL."""
    port = find_free_port()
    server_pid = process.start_server(
        host="127.0.0.2",
        port=port,
        roots=[root],
        secret=settings.SLUICE_MARKER_SECRET,
        log_path=root.parent / "elsewhere.log",
    )
    settings.SLUICE_OWN_MARKER_SERVER = False
    settings.SLUICE_MARKER_URL = f"http://127.0.0.2:{port}"
    for name in TIMEOUTS:
        setattr(settings, f"SLUICE_MARKER_{name}_TIMEOUT_S", WAIT_S_MAX)
    try:
        assert process.await_health(settings.SLUICE_MARKER_URL, WAIT_S_MAX) is not None
        yield server_pid
    finally:
        process.stop(server_pid, port=port)


def test_a_server_of_another_supervisor_is_sampled(elsewhere: int) -> None:
    assert supervise() == "running"

    status = marker_server_status()
    assert (status.state, status.pid, status.restarts) == ("running", None, 0)
    assert status.latest is not None
    assert status.latest.up


def test_a_server_of_another_supervisor_is_neither_started_nor_stopped(
    elsewhere: int, admin: User, settings: Settings
) -> None:
    supervise()
    port = MarkerServer.objects.get().port

    with pytest.raises(NotAllowedNow, match="restart it on its own node"):
        do_restart_marker_server(admin)
    shut_down()
    assert process.is_server(elsewhere, port=port)

    settings.SLUICE_MARKER_PROBE_TIMEOUT_S = 1.0  # It will not answer.
    kill(elsewhere, port)
    assert supervise() == "down"
    assert process.probe(settings.SLUICE_MARKER_URL, 1.0) is None
    assert process.probe(process.server_url(port), 1.0) is None
    assert not marker_server_status().samples[-1].up
