"""The environment of every process of a node: this module alone decides it.

Contract: a secret reaches a process only through its environment, and only a process that needs it.
Arguments, logs and `supervisord.conf` never hold one. What the caller has set (SLUICE_*, JAVA_HOME,
...) wins over what is worked out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from controlplane.node.identity import (
    BadSetting,
    Identity,
    choose_identity,
    read_identity,
    write_identity,
)
from controlplane.node.living import supervisor_pid
from controlplane.node.places import PROJECT, Places, places_from
from controlplane.node.secrets_file import (
    NodeSecrets,
    ensure_secrets,
    read_secrets,
    throwaway_key,
)
from workers.installation import format_command
from workers.processes import LOOPBACK

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TERM")
_PASSED_ON_PREFIXES = ("SLUICE_", "LC_", "AWS_", "GOOGLE_", "AZURE_", "OTEL_")
_JAVA = ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "SPARK_LOCAL_IP")
_SPARK_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105  (a name, not a token)
SECRET_VARIABLES = frozenset(
    {
        "SLUICE_DATABASE",  # These three addresses may carry a password.
        "SLUICE_LOCK_URL",
        "SLUICE_REDIS_URL",
        "SLUICE_SECRET_KEY",
        "SLUICE_WORKER_TOKEN",
        "SLUICE_MARKER_SECRET",
        "SLUICE_METRICS_TOKEN",
        "SLUICE_EMAIL_PASSWORD",
        "SLUICE_OIDC_CLIENT_SECRET",
        _SPARK_TOKEN,
    }
)
ROLES = ("web", "worker", "beat", "markers", "all")
"""Commands that run one role of a node, or all of them, by settings alone."""
_NEEDS_NO_NODE = frozenset(
    {
        "down",
        "status",
        "doctor",
        "write",
        "sink",
        "sbom",
        "advisories",
        "restore",
        "help",
        "collectstatic",
    }
)
_NEEDS_NO_KEY = frozenset({"markers", "ping"})


def settings_of(environ: Mapping[str, str], places: Places, identity: Identity) -> dict[str, str]:
    """The SLUICE_* variables that name this node's places and addresses; no secrets."""
    return {
        "SLUICE_HOME": str(places.home),
        "SLUICE_NODE": identity.node,
        "SLUICE_TABLE_ROOTS": environ.get("SLUICE_TABLE_ROOTS") or str(places.tables),
        "SLUICE_UPLOAD_FOLDER": environ.get("SLUICE_UPLOAD_FOLDER") or str(places.uploads),
        "SLUICE_WEB_HOST": identity.web_host,
        "SLUICE_WEB_PORT": str(identity.web_port),
        "SLUICE_REPORT_URL": environ.get("SLUICE_REPORT_URL") or identity.url.rstrip("/"),
        "SLUICE_PUBLIC_URL": environ.get("SLUICE_PUBLIC_URL") or identity.url.rstrip("/"),
        "SLUICE_SPARK_PORT": str(identity.spark_port),
        # Spark's client sends a token without TLS to a host called `localhost` and to no other.
        "SLUICE_SPARK_REMOTE": identity.spark_remote or f"sc://localhost:{identity.spark_port}",
        "SLUICE_MARKER_PORT": str(identity.marker_port),
        "SLUICE_MARKER_HOST": identity.marker_host,
        "SLUICE_MARKER_URL": identity.marker_url or identity.own_marker_url,
        "SLUICE_OWN_MARKER_SERVER": "0" if identity.marker_url else "1",
    }


def supervisor_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the caller's shell hands on, by name, so that a stray SPARK_HOME or PYTHONPATH of his
    breaks nothing.
    """
    return {
        name: value
        for name, value in environ.items()
        if name in (*_PASSED_ON, *_JAVA, _SPARK_TOKEN) or name.startswith(_PASSED_ON_PREFIXES)
    }


def process_environment(
    environ: Mapping[str, str],
    places: Places,
    identity: Identity,
    secrets: Mapping[str, str],
) -> dict[str, str]:
    """Everything that one process gets, with these secrets and no others."""
    passed_on = supervisor_environment(environ)
    own_programs = str(Path(sys.executable).parent)
    return {
        **{name: value for name, value in passed_on.items() if name not in SECRET_VARIABLES},
        **settings_of(environ, places, identity),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
        "PROMETHEUS_MULTIPROC_DIR": str(places.counts),
        "PATH": os.pathsep.join([own_programs, environ.get("PATH") or os.defpath]),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(PROJECT),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": environ.get("SPARK_LOCAL_IP") or LOOPBACK,
        "TZ": "UTC",
        **secrets,
    }


def web_secrets(
    environ: Mapping[str, str], identity: Identity, secrets: NodeSecrets
) -> dict[str, str]:
    """What the control plane signs, checks and connects with. What the environment gives wins over
    the file.
    """
    names = ("SLUICE_DATABASE", "SLUICE_LOCK_URL", "SLUICE_EMAIL_PASSWORD")
    given = {name: environ.get(name) for name in names}
    return {
        **{name: value for name, value in given.items() if value},
        "SLUICE_REDIS_URL": identity.redis_url or identity.own_redis_url,
        "SLUICE_SECRET_KEY": environ.get("SLUICE_SECRET_KEY") or secrets.django_secret_key,
        "SLUICE_WORKER_TOKEN": environ.get("SLUICE_WORKER_TOKEN") or secrets.worker_token,
        "SLUICE_MARKER_SECRET": environ.get("SLUICE_MARKER_SECRET") or secrets.marker_secret,
    }


def login_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """What the web process shows to the provider of logins; empty where that lies in a file."""
    secret = environ.get("SLUICE_OIDC_CLIENT_SECRET")
    return {"SLUICE_OIDC_CLIENT_SECRET": secret} if secret else {}


def metrics_secrets(environ: Mapping[str, str], secrets: NodeSecrets) -> dict[str, str]:
    """What a scrape has to show; only the web process asks for it."""
    return {"SLUICE_METRICS_TOKEN": environ.get("SLUICE_METRICS_TOKEN") or secrets.metrics_token}


def spark_secrets(
    environ: Mapping[str, str], identity: Identity, secrets: NodeSecrets
) -> dict[str, str]:
    """What a Spark Connect server and its clients share; for another's server, only what the caller
    gives.
    """
    token = environ.get(_SPARK_TOKEN) or ("" if identity.spark_remote else secrets.spark_token)
    return {_SPARK_TOKEN: token} if token else {}


def worker_secrets(
    environ: Mapping[str, str], identity: Identity, secrets: NodeSecrets
) -> dict[str, str]:
    """What Celery needs itself and hands to writers and marker servers."""
    return {**web_secrets(environ, identity, secrets), **spark_secrets(environ, identity, secrets)}


def adopt(environ: MutableMapping[str, str], *, command: str) -> None:
    """Give a shell command the settings and secrets of this checkout's node, before Django reads
    its settings.

    `up` makes them when they are missing. `migrate` makes the home, so that it can create the
    database before the first start. `down`, `status`, `doctor`, `write`, `sink`, `sbom`,
    `advisories`, `restore` and `help` work without, and `doctor` judges what the caller has set. A
    role uses the environment of the caller only. Raises BadSetting when a variable or the node's
    home cannot be used.
    """
    if command in (*ROLES, *_NEEDS_NO_KEY):
        if command in _NEEDS_NO_KEY:
            environ.setdefault("SLUICE_SECRET_KEY", throwaway_key())
        return
    places = places_from(environ)
    try:
        _adopt(environ, places, command)
    except OSError as error:
        raise BadSetting(
            f"SLUICE_HOME={places.home} cannot be used ({error.strerror}: {error.filename}); name "
            "a folder that you may write to"
        ) from error
    except (ValueError, TypeError) as error:
        raise BadSetting(
            f"{places.identity} or {places.secrets} is damaged ({error}); end the node, remove the "
            f"file and run `{format_command('up')}`"
        ) from error


def _adopt(environ: MutableMapping[str, str], places: Places, command: str) -> None:
    runs = supervisor_pid(places) is not None
    if command == "doctor" and not runs:
        environ.setdefault("SLUICE_SECRET_KEY", throwaway_key())
        return
    if command == "up" and not runs:
        places.create()
        ensure_secrets(places.secrets)
        write_identity(places.identity, choose_identity(environ, read_identity(places.identity)))
    identity, secrets = read_identity(places.identity), read_secrets(places.secrets)
    if identity is not None and secrets is not None:
        environ.update(worker_secrets(environ, identity, secrets))
        environ.update(metrics_secrets(environ, secrets))
        environ.update(settings_of(environ, places, identity))
    elif command in _NEEDS_NO_NODE:
        environ.setdefault("SLUICE_SECRET_KEY", throwaway_key())
    elif command == "migrate":
        # It reads and writes nothing that is signed or encrypted.
        places.home.mkdir(parents=True, exist_ok=True)
        environ.setdefault("SLUICE_SECRET_KEY", throwaway_key())
