"""A real Apache Kafka on loopback, for the demo, tests and the bench: one process, KRaft.

Spark's package resolver fetches its jars once. Scala's library and the logging come from
Spark's own jars. The directory contains all data of a broker, so a killed broker can start again on
it. All users of this machine can connect without authentication: it is not for production.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from workers.clock import Clock, SystemClock
from workers.errors import KafkaFailed
from workers.installation import format_installation
from workers.processes import find_free_ports, listens_at, start_on_free_ports

PACKAGE: Final = "org.apache.kafka:kafka_2.13:4.1.0"

_KNOWN: Final = PACKAGE.replace(":", "_") + ".jars"
_CLUSTER_ID: Final = "c2x1aWNlLWthZmthLWRlbQ"  # Any 16 bytes in base 64.
_RESOLVE_TIMEOUT_S = 900.0
_FORMAT_TIMEOUT_S = 60.0
_STOP_WAIT_S = 20.0
_POLL_S = 0.05
_LINES_SHOWN = 5
_RESOLVER_CAUSES = ("Server access error", "unresolved dependency")
_RESOLVE = """
import os, sys

os.environ["PYSPARK_SUBMIT_ARGS"] = f"--packages {sys.argv[1]} pyspark-shell"
from pyspark.java_gateway import launch_gateway

gateway = launch_gateway()
print(gateway.jvm.java.lang.System.getProperty("spark.jars"))
gateway.shutdown()
gateway.proc.stdin.close()
"""


class Broker:
    """One broker with its own directory, not started yet."""

    def __init__(
        self,
        directory: Path,
        class_path: str,
        *,
        ports: tuple[int, int] | None = None,
        settings: Mapping[str, str] | None = None,
        heap_mb: int = 512,
        clock: Clock | None = None,
    ) -> None:
        self._directory = directory
        self._class_path = class_path
        self._is_port_fixed = ports is not None
        self._port, self._controller_port = ports or find_free_ports(2)
        self._settings = dict(settings or {})
        self._heap_mb = heap_mb
        self._clock = clock or SystemClock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients, on loopback. The first `start` may choose another port, unless
        the ports are fixed.
        """
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Process id of the broker, which must have been started."""
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    @property
    def log(self) -> Path:
        """Output of the process. Each start appends to it."""
        return self._directory / "kafka.log"

    def prepare(self) -> list[str]:
        """Format the directory if necessary, and return the command that starts the broker."""
        self._directory.mkdir(parents=True, exist_ok=True)
        properties = self._directory / "server.properties"
        lines = [f"{key}={value}\n" for key, value in self._properties().items()]
        properties.write_text("".join(lines))
        if not (self._directory / "data" / "meta.properties").exists():
            tool = [*self._java("-Xmx128m", "-XX:TieredStopAtLevel=1"), "kafka.tools.StorageTool"]
            words = ["format", "--cluster-id", _CLUSTER_ID, "--config", str(properties)]
            _run("format the broker's directory", [*tool, *words], timeout_s=_FORMAT_TIMEOUT_S)
        return [*self._java(f"-Xmx{self._heap_mb}m"), "kafka.Kafka", str(properties)]

    def start(self, *, wait_s: float = 60.0) -> None:
        """Start the broker, and wait until it answers. Raises KafkaFailed if it does not."""
        assert self._process is None, "the broker was started already"
        if self._is_port_fixed:
            self._start(wait_s)
            return

        def start(port: int, controller_port: int) -> None:
            self._port, self._controller_port = port, controller_port
            self._start(wait_s)

        start_on_free_ports(start, count=2)
        self._is_port_fixed = True  # Clients know them now.

    def _start(self, wait_s: float) -> None:
        command = self.prepare()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._await_answer(wait_s)
        except KafkaFailed:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the broker with SIGTERM, and kill it if it does not end in time."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Kill the broker with SIGKILL, without a flush or a notification."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _await_answer(self, wait_s: float) -> None:
        process = self._process
        assert process is not None

        def has_ended() -> bool:
            return process.poll() is not None

        # Another process with the port may answer before this process fails to bind it.
        deadline_s = self._clock.monotonic_s() + wait_s
        while not (is_bound := listens_at(process.pid, self._port)):
            if has_ended() or self._clock.monotonic_s() > deadline_s:
                break
            self._clock.sleep(_POLL_S)
        left_s = deadline_s - self._clock.monotonic_s()
        if not (
            is_bound and await_broker(self.bootstrap, left_s, self._clock, has_ended=has_ended)
        ):
            raise KafkaFailed(
                "broker did not come up",
                ended=process.poll(),
                told=_last_lines(self.log.read_bytes()),
            )

    def _java(self, *options: str) -> list[str]:
        home = os.environ.get("JAVA_HOME", "")
        program = str(Path(home) / "bin" / "java") if home else "java"
        return [program, "-XX:+UseSerialGC", *options, "-cp", self._class_path]

    def _properties(self) -> dict[str, str]:
        broker = f"PLAINTEXT://{self.bootstrap}"
        controller = f"127.0.0.1:{self._controller_port}"
        alone = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{broker},CONTROLLER://{controller}",
            "advertised.listeners": broker,
            "log.dirs": str(self._directory / "data"),
            "auto.create.topics.enable": "false",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            **{f"{prefix}.replication.factor": "1" for prefix in alone},
            **{f"{prefix}.num.partitions": "1" for prefix in alone},
            **{f"{prefix}.min.isr": "1" for prefix in alone[1:]},
            **self._settings,
        }


def await_broker(
    bootstrap: str, wait_s: float, clock: Clock, *, has_ended: Callable[[], bool] = lambda: False
) -> bool:
    """Wait until the broker answers. Return False if it does not answer in time."""
    deadline_s = clock.monotonic_s() + wait_s
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    while not has_ended() and clock.monotonic_s() < deadline_s:
        try:
            if client.list_topics(timeout=0.5).brokers:
                return True
        except KafkaException:
            clock.sleep(0.05)
    return False


def load_class_path(cache: Path, *, within_s: float = _RESOLVE_TIMEOUT_S) -> str:
    """Return Java's class path for Kafka, and fetch the jars on first use. `cache` is a directory
    that stores their paths. Raises KafkaFailed if they cannot be fetched.
    """
    with _hold_lock(cache):
        jars = find_cached_jars(cache)
        if not jars:
            jars = _resolve_jars(within_s)
            (cache / _KNOWN).write_text("\n".join(jars))
    return ":".join((*_spark_jars(), *jars))


def find_cached_jars(cache: Path) -> list[str]:
    """Return the jars that were fetched before, or an empty list if one of them is missing."""
    listing = cache / _KNOWN
    jars = listing.read_text().split() if listing.exists() else []
    return jars if all(Path(jar).is_file() for jar in jars) else []


def _resolve_jars(within_s: float) -> list[str]:
    command = [sys.executable, "-c", _RESOLVE, PACKAGE]
    step = f"fetch Kafka's jars ({PACKAGE}), which takes a network once"
    printed = _run(step, command, timeout_s=within_s, cause_words=_RESOLVER_CAUSES)
    jars = [
        jar.strip().removeprefix("file://") for jar in printed.strip().split("\n")[-1].split(",")
    ]
    if not all(Path(jar).is_file() for jar in jars):
        raise KafkaFailed(f"could not {step}: Spark's resolver named others", jars=jars)
    return jars


def _spark_jars() -> list[str]:
    """Return Spark's jars for logging and Scala, which come first on the class path."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    names = ("slf4j-api-", "log4j-api-", "log4j-core-", "log4j-slf4j2-impl-", "scala-library-")
    jar_by_name = {name: next(jars.glob(f"{name}*.jar"), None) for name in names}
    if missing := [name for name, jar in jar_by_name.items() if jar is None]:
        raise KafkaFailed(
            f"Spark's own jars are not whole, run `{format_installation('server')}`: {jars}",
            missing=missing,
        )
    return [str(jar) for jar in jar_by_name.values()]


def _run(
    step: str, command: list[str], *, timeout_s: float, cause_words: tuple[str, ...] = ()
) -> str:
    """Run the command and return its output. Raises KafkaFailed, with the lines that contain one of
    `cause_words` if there are any.
    """
    without = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    try:
        done = subprocess.run(
            command, env=without, capture_output=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KafkaFailed(f"could not {step}", error=error) from error
    if done.returncode:
        raise KafkaFailed(
            f"could not {step}", told=_last_lines(done.stdout + done.stderr, cause_words)
        )
    return done.stdout.decode()


def _last_lines(output: bytes, cause_words: tuple[str, ...] = ()) -> str:
    """Return the last lines, without Java's stack traces."""
    lines = output.decode(errors="replace").splitlines()
    printed = [line.strip() for line in lines if line.strip() and not line.startswith("\tat ")]
    with_cause = [line for line in printed if any(word in line for word in cause_words)]
    return " | ".join([with_cause[0], with_cause[-1]] if with_cause else printed[-_LINES_SHOWN:])


@contextmanager
def _hold_lock(cache: Path) -> Iterator[None]:
    """Hold a lock, because Spark's resolver does not support two processes in one directory."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
