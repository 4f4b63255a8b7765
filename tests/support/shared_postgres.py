"""The PostgreSQL cluster that all workers of one test run share: a plugin of pytest.

It is loaded before Django's settings, and names the cluster in SLUICE_TEST_DATABASE. The first
test that needs a database starts the cluster. Each worker has a database of its own there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from bench.support.postgres import ROLE, Cluster, find_obstacle, programs

DATABASE = "SLUICE_TEST_DATABASE"
CLUSTER = "SLUICE_TEST_CLUSTER"
"""Its folder, named by the process that ends it. Workers inherit both variables."""
_PREFIX = "sluice-shared-postgres-"
_SETTINGS = (
    "listen_addresses=",
    "wal_level=minimal",
    "max_wal_senders=0",
    "checkpoint_timeout=1d",
    "max_wal_size=8GB",
    "autovacuum=off",
    "shared_buffers=64MB",
)


def pytest_addoption() -> None:
    """Choose the database. It is the only hook that runs before Django's settings are read."""
    if DATABASE in os.environ or find_obstacle():
        return
    folder = tempfile.mkdtemp(
        prefix=f"{_PREFIX}{os.getpid()}-", dir="/tmp"
    )  # A socket's path is short.
    os.environ[CLUSTER] = folder
    os.environ[DATABASE] = f"postgres://{ROLE}@/postgres?host={quote(folder)}"


def pytest_report_header() -> str:
    if CLUSTER in os.environ:
        return "database: PostgreSQL, one cluster for all workers"
    if address := os.environ.get(DATABASE):
        return f"database: {address.partition(':')[0] or 'SQLite'} ({DATABASE})"
    return f"database: SQLite ({find_obstacle() or f'{DATABASE} is empty'})"


def pytest_unconfigure() -> None:
    folder = os.environ.get(CLUSTER, "")
    if _owner_pid(folder) == os.getpid():
        _remove(Path(folder))


@pytest.fixture(scope="session")
def start_postgres() -> None:
    """Start the cluster, unless another worker did."""
    if CLUSTER not in os.environ:
        return
    folder, bin_dir = Path(os.environ[CLUSTER]), programs()
    assert bin_dir is not None
    cluster = Cluster(folder, bin_dir)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cluster.data.exists():
            _remove_abandoned(folder.parent)
            cluster.create()
            cluster.start(f"unix_socket_directories={folder}", *_SETTINGS)


def _remove_abandoned(parent: Path) -> None:
    """Remove the clusters of runs that were killed."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        pid = _owner_pid(str(folder))
        if pid is not None and not psutil.pid_exists(pid):
            _remove(folder)


def _remove(folder: Path) -> None:
    bin_dir = programs()
    assert bin_dir is not None
    if (folder / "data" / "postmaster.pid").exists():
        Cluster(folder, bin_dir).stop()
    shutil.rmtree(folder)


def _owner_pid(folder: str) -> int | None:
    pid = Path(folder).name.removeprefix(_PREFIX).partition("-")[0]
    return int(pid) if pid.isdecimal() else None
