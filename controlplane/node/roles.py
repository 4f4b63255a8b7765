"""The roles of a node: web, worker, beat and the marker server, each one process by settings alone.

A role starts no service of its own, unlike `up`: Redis, Spark, the database and the marker server
are addresses in the environment. Secrets come from the environment, else from `secrets.json` in
SLUICE_HOME. Every role process has its own SLUICE_NODE, by which it finds the writers that it
started.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import OperationalError, connection, connections

from controlplane.node.first_use import collect_static
from controlplane.node.identity import BadSetting, Identity, build_identity
from controlplane.node.migrating import count_missing_migrations
from controlplane.node.places import PROJECT, Places
from controlplane.node.processes import (
    WORKERS,
    Process,
    memory_bytes_max,
    processes,
    worker_command,
)
from controlplane.node.secrets_file import NodeSecrets
from controlplane.operations.marker_server import batch_options
from controlplane.settings.secrets import read_secrets
from workers.locations import parse_roots
from workers.markers.process import SECRET_VARIABLE, server_command
from workers.masking import Masker, secret_values

QUEUES: Final = tuple(queue for queue, _ in WORKERS.values())
_DATABASE, _REDIS, _ROOTS = "SLUICE_DATABASE", "SLUICE_REDIS_URL", "SLUICE_TABLE_ROOTS"
_MARKERS = ("SLUICE_MARKER_URL", SECRET_VARIABLE)
_SHARED = (_DATABASE, _REDIS, "SLUICE_SECRET_KEY", "SLUICE_WORKER_TOKEN", _ROOTS)
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "web": _SHARED,
    "worker": (*_SHARED, *_MARKERS, "SLUICE_SPARK_REMOTE"),
    "beat": (_REDIS, "SLUICE_SECRET_KEY"),
    "markers": (SECRET_VARIABLE, _ROOTS),
    "all": (*_SHARED, SECRET_VARIABLE, "SLUICE_SPARK_REMOTE"),
}
"""The settings without which a role does not start, in the order in which it reports them."""
_MEANINGS: Final = {
    _DATABASE: "the database that all roles share, such as postgres://user:password@host/name",
    _REDIS: "the Redis that all roles share, such as redis://:password@host:6379/0",
    _ROOTS: "the folders or s3:// places of the tables, the same for all roles",
    "SLUICE_SECRET_KEY": "a random text, the same for all roles",
    "SLUICE_WORKER_TOKEN": "a random text, the same for all roles",
    SECRET_VARIABLE: "a random text, the same for workers and marker server",
    "SLUICE_MARKER_URL": "the marker server, such as http://host:8766",
    "SLUICE_SPARK_REMOTE": "the Spark Connect server, such as sc://host:15002",
}
_SECRET_FIELDS: Final = {
    "SLUICE_SECRET_KEY": "django_secret_key",
    "SLUICE_WORKER_TOKEN": "worker_token",
    SECRET_VARIABLE: "marker_secret",
}
_POLL_S = 0.5
_MARKERS_STOP_S = 10


class CannotRun(Exception):
    """A role cannot start; the text gives the reason and the remedy in one sentence."""


def read_role(
    role: str, environ: Mapping[str, str], places: Places
) -> tuple[Identity, NodeSecrets]:
    """Return the addresses and secrets of a role process.

    Raises BadSetting that names the first setting which is missing or cannot be used.
    """
    secrets = read_secrets(places.home)
    for name in NEEDS[role]:
        field = _SECRET_FIELDS.get(name)
        if not (getattr(secrets, field) if field else environ.get(name)):
            raise BadSetting(f"{name} is not set, and {role} needs it: {_MEANINGS[name]}")
    identity = build_identity(environ, node=uuid.uuid4().hex)
    own = NodeSecrets(
        django_secret_key=secrets.django_secret_key,
        worker_token=secrets.worker_token,
        marker_secret=secrets.marker_secret,
        metrics_token=secrets.metrics_token,
        spark_token="",  # Only the environment has the token of another's Spark.
        admin_password="",
        viewer_password="",
    )
    return identity, own


def await_database(environ: Mapping[str, str], *, wait_s: float) -> None:
    """Wait until the database answers, and check that its tables are those of this code.

    Raises CannotRun if it does not answer in time, or lacks migrations.
    """
    until_s = time.monotonic() + wait_s
    try:
        while True:
            try:
                connection.ensure_connection()
                break
            except OperationalError as error:
                if time.monotonic() >= until_s:
                    reason = Masker(secret_values(environ)).mask(str(error).strip())
                    raise CannotRun(
                        f"the database of {_DATABASE} does not answer after {wait_s:.0f} s: "
                        + reason.splitlines()[0]
                    ) from error
                time.sleep(_POLL_S)
        missing = count_missing_migrations()
    finally:
        connections.close_all()
    if missing:
        raise CannotRun(
            f"the database of {_DATABASE} lacks {missing} migrations: run `migrate` once, then "
            "start this role again"
        )


def prepare_static_files(places: Places, say: Callable[[str], object]) -> None:
    """Collect static files in the home, or check that SLUICE_STATIC_FOLDER has them.

    Raises CannotRun if that folder was not filled.
    """
    if not settings.SLUICE_STATIC_FOLDER:
        collect_static(places, say)
    elif not (Path(settings.STATIC_ROOT) / "staticfiles.json").is_file():
        raise CannotRun(
            f"SLUICE_STATIC_FOLDER={settings.STATIC_ROOT} has no collected files: run "
            "`collectstatic` with the same setting"
        )


def build_processes(
    environ: Mapping[str, str], places: Places, identity: Identity, secrets: NodeSecrets
) -> dict[str, Process]:
    """Return the processes of all roles by name, in the order in which they start."""
    own = processes(environ, places, identity, secrets)
    markers = build_marker_server(environ, identity, secrets)
    return {process.name: process for process in (markers, *own)}


def build_worker(
    environ: Mapping[str, str],
    template: Process,
    queues: tuple[str, ...],
    concurrency: int | None,
) -> Process:
    """Return a worker of these queues, with as many jobs at once as a node has by default."""
    jobs = concurrency or sum(jobs for queue, jobs in WORKERS.values() if queue in queues)
    return Process(
        "worker",
        worker_command(queues, jobs),
        template.secrets,
        template.folder,
        template.stop_wait_s,
        # Jobs of this queue work on whole tables.
        memory_bytes_max=0 if "engine" in queues else memory_bytes_max(environ),
    )


def build_marker_server(
    environ: Mapping[str, str], identity: Identity, secrets: NodeSecrets
) -> Process:
    """Return the marker server with the roots and the batch settings of the environment."""
    command = server_command(
        host=identity.marker_host,
        port=identity.marker_port,
        roots=parse_roots(environ.get(_ROOTS, "")),
        options=batch_options(),
    )
    own = {SECRET_VARIABLE: secrets.marker_secret}
    return Process("markers", tuple(command), own, PROJECT, _MARKERS_STOP_S)
