"""A standalone Spark cluster on loopback whose Python has packages only, and not this checkout.

Each worker has one core, an address of its own and, if asked, a processor of its own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import IO, Any

from bench.support.listeners import start_listener
from workers.spark.connect_server import server_command, spark_home

DRIVER_ADDRESS = "127.0.0.1"
WORKER_ADDRESSES = ("127.0.0.2", "127.0.0.3")
TABLES = ("pyarrow", "numpy", "fastavro")
PANDAS = ("pandas", "python-dateutil", "pytz", "six", "tzdata")
KAFKA = ("confluent-kafka",)
CONNECT = (
    *("grpcio", "grpcio-status", "googleapis-common-protos", "protobuf"),
    *("zstandard", "typing_extensions"),
)
_START_TIMEOUT_S = 300.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class StandaloneCluster:
    """A running master with its workers."""

    master: str
    python: Path
    """The executors' Python."""
    folder: Path


def make_bare_python(folder: Path, distributions: Sequence[str] = (*TABLES, *PANDAS)) -> Path:
    """Return the Python of a new environment that has these distributions of this one only."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    (site_packages,) = (folder / "lib").glob("python*/site-packages")
    packages: dict[str, Path] = {}
    for name in distributions:
        package = distribution(name)
        for path in package.files or ():
            packages[path.parts[0]] = Path(str(package.locate_file(path.parts[0]))).resolve()
    for name in packages.keys() - {"..", "__pycache__", "bin"}:
        (site_packages / name).symlink_to(packages[name])
    return folder / "bin" / "python"


@contextmanager
def standalone_cluster(
    folder: Path,
    python: Path,
    *,
    workers: int = 2,
    processors: Sequence[int] = (),
    memory: str = "1g",
) -> Iterator[StandaloneCluster]:
    """Start a master and its one-core workers; they end with the block.

    `processors` has the processor of each worker.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = bare_environment(folder)

    def start_master(port: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        words = ["--host", DRIVER_ADDRESS, "--port", str(port), "--webui-port", "0"]
        return _start_daemon("master.Master", words, folder, output, environment)

    log = folder / "master.log"
    with ExitStack() as stack:
        listener = start_listener(start_master, log, wait_s=_START_TIMEOUT_S)
        stack.callback(_kill_group, listener.process)
        master = f"spark://{DRIVER_ADDRESS}:{listener.port}"
        for number, address in enumerate(WORKER_ADDRESSES[:workers]):
            words = ["--host", address, "--cores", "1", "--memory", memory, "--webui-port", "0"]
            words += ["--work-dir", str(folder / address), master]
            there = {**environment, "SPARK_LOCAL_IP": address}
            with (folder / f"worker-{number}.log").open("ab") as output:
                worker = _start_daemon("worker.Worker", words, folder, output, there)
            stack.callback(_kill_group, worker)  # Executors are of the worker's group.
            if processors:
                os.sched_setaffinity(worker.pid, {processors[number]})
        _await_workers(log, workers)
        yield StandaloneCluster(master, python, folder)


@contextmanager
def bare_connect_server(
    cluster: StandaloneCluster,
    *,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Start a Connect server on the cluster that lacks the checkout, and return its address."""
    folder = Path(tempfile.mkdtemp(prefix="connect-", dir=cluster.folder))
    variables = {
        **bare_environment(folder),
        "PYSPARK_PYTHON": str(cluster.python),
        "SPARK_CONNECT_MODE": "0",
        "SPARK_LOCAL_IP": DRIVER_ADDRESS,
        **(environment or {}),
    }

    def start(port: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        command = server_command(
            port=port,
            work_dir=folder,
            master=cluster.master,
            more_settings={
                "spark.pyspark.python": str(cluster.python),
                "spark.executor.memory": "800m",
                **(settings or {}),
            },
        )
        return _start(command, folder, output, variables)

    listener = start_listener(start, folder / "connect.log", wait_s=_START_TIMEOUT_S)
    try:
        yield f"sc://localhost:{listener.port}"
    finally:
        _kill_group(listener.process)


def count_fetches(cluster: StandaloneCluster, name: str) -> int:
    """Return how often executors fetched a file whose name begins so, by their logs."""
    fetch = re.compile(rf"Utils: Fetching \S*/{re.escape(name)}")
    logs = cluster.folder.glob("127.*/app-*/*/stderr")
    return sum(len(fetch.findall(log.read_text(errors="replace"))) for log in logs)


def bare_environment(home: Path) -> dict[str, str]:
    """Return what a machine without this checkout has."""
    inherited = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    return {**inherited, "HOME": str(home), "SPARK_HOME": str(spark_home())}


def _start_daemon(
    name: str,
    words: list[str],
    folder: Path,
    output: IO[bytes],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]
    # Without retries, or the master would listen on another port than its workers expect.
    daemon = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-Dspark.port.maxRetries=0"}
    return _start(command, folder, output, {**environment, **daemon})


def _start(
    command: list[str], folder: Path, output: IO[bytes], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _await_workers(log: Path, count: int) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while log.read_text(errors="replace").count("Registering worker") < count:
        if time.monotonic() > deadline_s:
            raise AssertionError(f"workers are missing: {log.read_text(errors='replace')[-4000:]}")
        time.sleep(_POLL_S)


def _kill_group(process: subprocess.Popen[Any]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
