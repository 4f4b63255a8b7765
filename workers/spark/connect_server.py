"""A Spark Connect server of our own, on loopback: for the demo, for tests and for one-off loads.

`server_command` and `server_environment` say how one is started, for whoever supervises processes;
`start_connect_server` starts one in its own process group and waits until it answers. Tasks of the
server find this project by PYTHONPATH. A user's own cluster replaces all of this by its address.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from workers.clock import Clock, SystemClock
from workers.errors import LakehouseError
from workers.processes import listens_at, start_on_free_ports
from workers.spark.engine_archive import ENGINE_SETTING, engine_digest

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
MASTER = "local[8,4]"
"""Eight slots whatever the cores, and four attempts: a plain `local[*]` never retries a task."""

LOOPBACK = "127.0.0.1"
PROJECT_ROOT = Path(__file__).resolve().parents[2]
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 15.0
_POLL_S = 0.2
_LOG_TAIL_BYTES = 8_000
"""Enough for a failed start with Java's trace and what Spark logs when it stops."""


class ConnectServerFailed(LakehouseError):
    """The Spark Connect server did not start. Look at its log."""

    code = "connect_server_failed"


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A server that this machine runs, as `start_connect_server` started it."""

    remote: str
    """`sc://localhost:port`: to no other name does a client send a token without TLS."""
    pid: int
    """Also the id of its process group."""
    log: Path


def server_command(
    *,
    port: int,
    work_dir: Path,
    heap: str = "1g",
    master: str = MASTER,
    driver_host: str = LOOPBACK,
    more_settings: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the words that run a Connect server in the foreground; `more_settings` are Spark's.

    Clients connect on loopback. Executors of a cluster reach the server at `driver_host`.
    """
    settings = {
        "spark.master": master,
        "spark.app.name": "sluice",
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": driver_host,
        "spark.driver.host": driver_host,
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={work_dir}",
        "spark.local.dir": str(work_dir / "spark-local"),
        "spark.pyspark.python": sys.executable,
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": str(work_dir / "spark-warehouse"),
        "spark.ui.enabled": "false",
        ENGINE_SETTING: engine_digest(),
        **(more_settings or {}),
    }
    words = [str(spark_home() / "bin" / "spark-submit"), "--class", SERVER_CLASS]
    for key, value in settings.items():
        words += ["--conf", f"{key}={value}"]
    return [*words, "spark-internal"]


def spark_home() -> Path:
    """Where the pyspark package lies, without loading it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConnectServerFailed("pyspark is not installed")
    return Path(spec.origin).parent


def server_environment(
    environment: Mapping[str, str], *, driver_host: str = LOOPBACK
) -> dict[str, str]:
    """Return `environment` with what Python on the server's host needs: this project and Python."""
    paths = [str(PROJECT_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    return {
        **environment,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": driver_host,
        "SPARK_CONNECT_MODE": "0",
    }


def start_connect_server(
    work_dir: Path,
    *,
    port: int | None = None,
    heap: str = "1g",
    master: str = MASTER,
    environment: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    wait_s: float = _START_TIMEOUT_S,
    more_settings: Mapping[str, str] | None = None,
) -> ConnectServer:
    """Start a server in its own process group and wait until it listens, on a free port unless
    `port` is given; `more_settings` are Spark's.

    Raises ConnectServerFailed with the end of its log.
    """
    clock = clock or SystemClock()
    work_dir.mkdir(parents=True, exist_ok=True)
    log = work_dir / "spark-connect.log"

    def start(chosen_port: int) -> ConnectServer:
        command = server_command(
            port=chosen_port,
            work_dir=work_dir,
            heap=heap,
            master=master,
            more_settings=more_settings,
        )
        first_byte = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=server_environment(os.environ if environment is None else environment),
                cwd=work_dir,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        server = ConnectServer(remote=f"sc://localhost:{chosen_port}", pid=process.pid, log=log)
        deadline = clock.monotonic_s() + wait_s
        while not listens_at(server.pid, chosen_port):
            if process.poll() is not None or clock.monotonic_s() > deadline:
                stop_connect_server(server, clock=clock)
                tail = _read_tail(log, first_byte)
                raise ConnectServerFailed("spark connect server did not start", log=tail)
            clock.sleep(_POLL_S)
        return server

    return start_on_free_ports(start) if port is None else start(port)


def stop_connect_server(server: ConnectServer, *, clock: Clock | None = None) -> None:
    """End the server's process group; a server that is gone already is stopped."""
    clock = clock or SystemClock()
    deadline = clock.monotonic_s() + _STOP_TIMEOUT_S
    _signal_group(server.pid, signal.SIGTERM)
    while _is_running(server.pid) and clock.monotonic_s() < deadline:
        clock.sleep(_POLL_S)
    _signal_group(server.pid, signal.SIGKILL)


@contextmanager
def connect_server(
    work_dir: Path, *, heap: str = "1g", environment: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """A running server for the block, which is stopped with its whole process group afterwards.

    Raises ConnectServerFailed with the end of its log.
    """
    server = start_connect_server(work_dir, heap=heap, environment=environment)
    try:
        yield server
    finally:
        stop_connect_server(server)


def is_listening(remote: str) -> bool:
    """Whether somebody listens at `sc://host:port`. Raises ValueError for an address without a
    port.
    """
    host, _, port = remote.removeprefix("sc://").split("/")[0].partition(":")
    return answers_at(host, int(port))


def answers_at(host: str, port: int) -> bool:
    """Somebody listens there."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _is_running(pid: int) -> bool:
    """A child that ended is reaped here; one that somebody else reaps is looked for."""
    try:
        ended, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return Path(f"/proc/{pid}").exists()
    return ended == 0


def _read_tail(log: Path, first_byte: int) -> str:
    """Return the end of the log, without what earlier servers wrote before `first_byte`."""
    return log.read_bytes()[first_byte:][-_LOG_TAIL_BYTES:].decode(errors="replace")
