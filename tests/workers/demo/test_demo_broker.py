"""Broker and producer of the demo, as the supervisor runs them."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.kafka import sink_of
from tests.support.kafka_jars import KEPT, KafkaJarsMissing, require_class_path
from workers.clock import SystemClock
from workers.demo.broker import HEAP_MB
from workers.demo.feed import Feed
from workers.demo.orders import Orders
from workers.demo.ports import chosen_ports, read_ports
from workers.errors import KafkaFailed
from workers.sink.kafka.broker import Broker, await_broker, find_cached_jars
from workers.sink.kafka.client_config import connection_settings
from workers.sink.kafka.topics import Topics

Start = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory that knows the jars."""
    require_class_path()
    home = tmp_path / "kafka"
    home.mkdir()
    for known in KEPT.glob("*.jars"):
        shutil.copy(known, home)
    return home


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "workers.demo.broker", str(home)]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.kafka
@pytest.mark.slow  # A broker of the demo's own, started and stopped.
def test_broker_is_the_process_that_was_started_and_comes_back_where_it_was(
    home: Path, start: Start
) -> None:
    port, _ = chosen_ports(home)
    bootstrap = f"127.0.0.1:{port}"
    first = start()
    assert await_broker(bootstrap, 60, SystemClock())
    config = sink_of(Broker(home, "", ports=(port, 1)), "shop-orders")
    topics = Topics(connection_settings(config, {}))
    topics.create("shop-orders", 3)

    sent = Feed(config, Orders(7, 1), SystemClock()).run(300, per_second=10_000)
    command = psutil.Process(first.pid).cmdline()
    first.send_signal(signal.SIGTERM)
    first.wait(60)
    start()

    assert sent == 300
    assert f"-Xmx{HEAP_MB}m" in command
    assert read_ports(home) == chosen_ports(home)
    assert await_broker(bootstrap, 60, SystemClock())
    ends = topics.facts("shop-orders").watermarks
    assert sum(end for _, end in ends.values()) == 300
    assert all(end > 0 for _, end in ends.values())


@pytest.mark.kafka
@pytest.mark.slow  # A broker of the demo's own, started and stopped.
def test_feed_says_when_nobody_takes_its_orders(topics: Topics) -> None:
    config = sink_of(Broker(Path("/nowhere"), "", ports=(1, 2)), "shop-orders")
    feed = Feed(config, Orders(7, 1), SystemClock(), delivery_s=1.0)

    with pytest.raises(KafkaFailed, match="order"):
        feed.run(3, per_second=1_000)


def test_ports_are_kept_until_somebody_else_has_one(tmp_path: Path) -> None:
    first = chosen_ports(tmp_path)
    assert chosen_ports(tmp_path) == first
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first[0]))
        listener.listen()

        second = chosen_ports(tmp_path)

    assert second[0] != first[0]
    assert read_ports(tmp_path) == second


@pytest.mark.kafka
@pytest.mark.slow  # A broker of the demo's own, started and stopped.
def test_without_a_network_it_says_what_could_not_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1"
    empty = f"-Duser.home={tmp_path} -Dspark.jars.ivy={tmp_path}/ivy"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{dead} -Dhttp.proxyPort=1 {empty}")

    with pytest.raises(KafkaJarsMissing, match="could not fetch Kafka's jars") as raised:
        require_class_path(tmp_path / "kept", within_s=120)

    assert isinstance(raised.value.__cause__, KafkaFailed)
    assert "run `make kafka-jars`" in str(raised.value)
    assert "Connection refused" in str(raised.value)
    assert "kafka_2.13;4.1.0: not found" in str(raised.value)
    assert find_cached_jars(tmp_path / "kept") == []
