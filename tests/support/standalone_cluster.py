"""A standalone Spark cluster on loopback: a master, two workers on addresses of their own, and a
Connect server as its driver.

Two addresses, because Spark never starts a speculative attempt on the host of the first one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from pyspark.sql import SparkSession

from bench.support.listeners import start_listener
from workers.spark.connect_server import (
    server_environment,
    spark_home,
    start_connect_server,
    stop_connect_server,
)
from workers.spark.session import connect_session

WORKER_ADDRESSES = ("127.0.0.2", "127.0.0.3")
CORES_PER_WORKER = 2
_START_TIMEOUT_S = 120.0
_ONE_PORT = "-Dspark.port.maxRetries=0"
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

        def start_master(port: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
            words = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
            return _start_daemon("master.Master", words, work_dir, output, environment)

        listener = start_listener(start_master, work_dir / "master.log", wait_s=_START_TIMEOUT_S)
        stack.callback(_kill_group, listener.process)
        master = f"spark://127.0.0.1:{listener.port}"
        for address in WORKER_ADDRESSES:
            words = ["--host", address, "--cores", str(CORES_PER_WORKER), "--memory", "800m"]
            words += ["--webui-port", "0", "--work-dir", str(work_dir / address), master]
            there = {**environment, "SPARK_LOCAL_IP": address}
            with (work_dir / "worker.log").open("ab") as output:
                worker = _start_daemon("worker.Worker", words, work_dir, output, there)
            stack.callback(_kill_group, worker)  # Executors are of the worker's group.
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


def _start_daemon(
    name: str, words: list[str], work_dir: Path, output: IO[bytes], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]
    return subprocess.Popen(
        command,
        # Without retries, or the master would listen on another port than its workers are told.
        env={**environment, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _ONE_PORT},
        cwd=work_dir,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
