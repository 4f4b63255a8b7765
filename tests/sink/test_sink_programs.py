"""The programs that run a sink: the driver of an operation, and the shell's command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sink.conftest import MakeTable, StartSink
from tests.support.classic_environment import classic_environment
from tests.support.kafka import eventually
from tests.support.sink_run import assert_each_offset_once, has_committed, send
from tests.support.spark_server import shared_server, start_test_server
from workers.clock import SystemClock
from workers.jobs import SinkJob
from workers.sink.kafka.broker import Broker
from workers.sink.state_file import read_state
from workers.spark.connect_server import stop_connect_server
from workers.spark.process import ENDING_FILE, LOG_FILE, is_driver, kill_driver, launch
from workers.storage.local import LocalStorage

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

EACH = 2_000
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def environment(location: str) -> dict[str, str]:
    return {**classic_environment(), "SLUICE_TABLE_ROOTS": str(Path(location).parent)}


@pytest.fixture
def launched(location: str, tmp_path: Path, environment: Mapping[str, str]) -> Iterator[Any]:
    """Launches the driver of a sink as a worker does; all end with the test."""
    folders: list[Path] = []

    def begin(options: Mapping[str, str]) -> tuple[int, Path]:
        run_dir = tmp_path / "run" / str(len(folders))
        folders.append(run_dir)
        job = SinkJob(
            operation_id=str(uuid.uuid4()),
            table=location,
            sink_options=dict(options),
            session_id=str(uuid.uuid4()),
            run_dir=str(run_dir),
        )
        pid = launch(job, environment)
        assert pid is not None
        return pid, run_dir

    yield begin
    for folder in folders:
        kill_driver(folder, None, SystemClock())


def ending(run_dir: Path) -> dict[str, Any]:
    path = run_dir / ENDING_FILE
    eventually(path.exists, within_s=240)
    return dict(json.loads(path.read_text()))


def fill(kafka: Broker, topic: str, first: int = 0) -> dict[int, int]:
    for partition in range(4):
        send(kafka, topic, partition, first, EACH)
    return dict.fromkeys(range(4), first + EACH)


def test_killed_driver_takes_its_tasks_along_and_a_relaunch_goes_on_until_a_signal(
    kafka: Broker, topic: str, location: str, make_table: MakeTable, launched: Any
) -> None:
    options = make_table(topic)
    pid, run_dir = launched(options)
    first = fill(kafka, topic)
    eventually(lambda: has_committed(location, topic, first), within_s=240)

    assert kill_driver(run_dir, pid, SystemClock())
    assert not (run_dir / ENDING_FILE).exists()
    again, run_dir = launched(options)
    both = fill(kafka, topic, EACH)
    eventually(lambda: has_committed(location, topic, both), within_s=240)
    os.kill(again, signal.SIGTERM)

    ended = ending(run_dir)
    assert ended["state"] == "succeeded", (run_dir / LOG_FILE).read_text()[-3000:]
    state = read_state(LocalStorage(location), topic)
    assert state is not None
    assert state.state == "STOPPED"
    assert_each_offset_once(location, both)
    assert not is_driver(pid, run_dir)


def test_driver_whose_sink_another_launch_takes_over_says_so(
    kafka: Broker,
    topic: str,
    location: str,
    make_table: MakeTable,
    start_sink: StartSink,
    launched: Any,
) -> None:
    _, run_dir = launched(make_table(topic))
    first = fill(kafka, topic)
    eventually(lambda: has_committed(location, topic, first), within_s=120)

    other = start_sink(topic)

    ended = ending(run_dir)
    assert ended["state"] == "fenced", ended
    both = fill(kafka, topic, EACH)
    other.await_offsets(both)
    other.stop()
    assert_each_offset_once(location, both)


def test_driver_says_why_a_sink_cannot_begin(
    topic: str, location: str, make_table: MakeTable, launched: Any
) -> None:
    options = make_table(topic)

    _, run_dir = launched({**options, "hoodie.kafka.topic": "never-made"})

    ended = ending(run_dir)
    assert ended["state"] == "failed"
    assert "never-made" in ended["message"]


@dataclass
class SinkCommand:
    """`manage.py sink run` in a process of its own."""

    process: subprocess.Popen[bytes]
    said: Path

    def log_text(self) -> str:
        return self.said.read_text()

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)


@pytest.fixture
def command(
    location: str, tmp_path: Path, environment: Mapping[str, str]
) -> Iterator[Callable[..., SinkCommand]]:
    """`command(options, **variables)`; ends with the test."""
    begun: list[SinkCommand] = []

    def begin(options: Mapping[str, str], **variables: str) -> SinkCommand:
        words = [f"--set={key}={value}" for key, value in options.items()]
        node = {
            "SLUICE_HOME": str(tmp_path / "home"),
            "SLUICE_SECRET_KEY": "a key for tests only",
            "SLUICE_DATABASE": str(tmp_path / "none.sqlite3"),
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
        }
        topic, said = options["hoodie.kafka.topic"], tmp_path / f"said-{len(begun)}"
        with said.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "sink", "run", location, "--topic", topic, *words],
                cwd=PROJECT,
                env={**environment, **node, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        begun.append(SinkCommand(process, said))
        return begun[-1]

    yield begin
    for begun_command in begun:
        begun_command.end()


@pytest.mark.parametrize("application", ["own", "connect"])
def test_command_runs_a_sink_until_it_is_interrupted(
    kafka: Broker,
    topic: str,
    location: str,
    make_table: MakeTable,
    command: Callable[..., SinkCommand],
    application: str,
) -> None:
    """In a Spark of its own, or in the server of the node."""
    remote = {"SLUICE_SPARK_REMOTE": shared_server().remote} if application == "connect" else {}
    run = command(make_table(topic), **remote)
    offsets = fill(kafka, topic)
    eventually(lambda: has_committed(location, topic, offsets), within_s=240)
    os.kill(run.process.pid, signal.SIGINT)
    code = run.process.wait(240)

    assert code == 0, run.log_text()[-3000:]
    assert ("in the Spark server at sc://" in run.log_text()) == (application == "connect")
    assert "stopping after the current transaction" in run.log_text()
    assert "stopped:" in run.log_text()
    assert_each_offset_once(location, offsets)


def test_a_sink_whose_spark_server_dies_says_so_and_another_goes_on(
    kafka: Broker,
    topic: str,
    location: str,
    make_table: MakeTable,
    command: Callable[..., SinkCommand],
    tmp_path: Path,
) -> None:
    options = make_table(topic)
    server = start_test_server(tmp_path / "spark")
    try:
        run = command(options, SLUICE_SPARK_REMOTE=server.remote)
        first = fill(kafka, topic)
        eventually(lambda: has_committed(location, topic, first), within_s=240)
        os.killpg(server.pid, signal.SIGKILL)
        code = run.process.wait(240)
    finally:
        stop_connect_server(server)

    assert code != 0
    assert "Spark is gone" in run.log_text(), run.log_text()[-3000:]
    again = command(options)
    both = fill(kafka, topic, EACH)
    eventually(lambda: has_committed(location, topic, both), within_s=240)
    os.kill(again.process.pid, signal.SIGINT)
    assert again.process.wait(240) == 0, again.log_text()[-3000:]
    assert_each_offset_once(location, both)
