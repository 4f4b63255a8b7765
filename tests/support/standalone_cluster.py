"""A standalone Spark cluster on loopback: a master, two workers on addresses of their own, and a
Connect server as its driver.

Two addresses, because Spark never starts a speculative attempt on the host of the first one.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from workers.spark.connect_server import (
    answers_at,
    server_environment,
    spark_home,
    start_connect_server,
    stop_connect_server,
)
from workers.spark.session import connect_session

WORKER_ADDRESSES = ("127.0.0.2", "127.0.0.3")
CORES_PER_WORKER = 2
_START_TIMEOUT_S = 120.0
_DEFAULTS = """
spark.cores.max 4
spark.executor.memory 700m
spark.executorEnv.PYTHONPATH {pythonpath}
spark.shuffle.service.enabled false
spark.speculation true
spark.speculation.interval 100ms
spark.speculation.multiplier 1.1
spark.speculation.quantile 0.1
spark.speculation.minTaskRuntime 1s
spark.sql.adaptive.coalescePartitions.enabled false
"""


@contextmanager
def standalone_session(work_dir: Path) -> Iterator[SparkSession]:
    """A Connect session whose tasks run on two executors; everything ends with the block."""
    with ExitStack() as stack:
        environment = _environment(work_dir)
        port = _free_port()
        master = f"spark://127.0.0.1:{port}"
        stack.enter_context(
            _daemon(
                work_dir,
                "master.Master",
                ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
                environment,
            )
        )
        _wait_for(lambda: answers_at("127.0.0.1", port))
        for address in WORKER_ADDRESSES:
            words = ["--host", address, "--cores", str(CORES_PER_WORKER), "--memory", "800m"]
            words += ["--webui-port", "0", "--work-dir", str(work_dir / address), master]
            there = {**environment, "SPARK_LOCAL_IP": address}
            stack.enter_context(_daemon(work_dir, "worker.Worker", words, there))
        server = start_connect_server(
            work_dir / "server", heap="700m", master=master, environment=environment
        )
        stack.callback(stop_connect_server, server)
        spark = connect_session(server.remote, session_id=str(uuid.uuid4()), user_id="tests")
        stack.callback(spark.stop)
        yield spark


def _environment(work_dir: Path) -> dict[str, str]:
    environment = server_environment(os.environ)
    configuration = work_dir / "conf"
    configuration.mkdir(parents=True)
    defaults = _DEFAULTS.format(pythonpath=environment["PYTHONPATH"])
    (configuration / "spark-defaults.conf").write_text(defaults)
    return {**environment, "SPARK_CONF_DIR": str(configuration)}


@contextmanager
def _daemon(
    work_dir: Path, name: str, words: list[str], environment: dict[str, str]
) -> Iterator[None]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]
    with (work_dir / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            env={**environment, "SPARK_DAEMON_MEMORY": "256m"},
            cwd=work_dir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # Executors are of the worker's group.
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(is_true: object) -> None:
    assert callable(is_true)
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)
