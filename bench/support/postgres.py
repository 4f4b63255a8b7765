"""A PostgreSQL cluster of its own, where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from workers.processes import start_on_free_ports

_SERVER_USER = "postgres"


class PostgresFailed(AssertionError):
    """The server did not start; the message is its log."""


def programs() -> Path | None:
    """Where `initdb` and `pg_ctl` are; Debian keeps them off the path."""
    initdb = shutil.which("initdb")
    if initdb is not None:
        return Path(initdb).parent
    # Its clients alone make the folder too.
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    return installed[0].parent if installed else None


@contextmanager
def postgres_cluster() -> Iterator[str]:
    """The address of an empty cluster on loopback, whose one role needs no password.

    Its folder is none of pytest's, which only their owner may enter.
    """
    bin_dir = programs()
    if bin_dir is None:
        pytest.skip("PostgreSQL's server programs are not installed")
    with TemporaryDirectory(prefix="sluice-postgres-") as folder:
        place = Path(folder)
        user = _unprivileged(place)

        def run(*words: str) -> None:
            subprocess.run(words, user=user, check=True, capture_output=True, cwd="/", timeout=120)

        data, log = str(place / "data"), place / "log"

        def start(port: int) -> int:
            settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off")
            options = " ".join([f"-p {port}", *(f"-c {setting}" for setting in settings)])
            log.unlink(missing_ok=True)
            try:
                run(f"{bin_dir}/pg_ctl", "-D", data, "-o", options, "-l", str(log), "-w", "start")
            except subprocess.CalledProcessError as error:
                raise PostgresFailed(log.read_text() if log.exists() else error.stderr) from error
            return port

        run(f"{bin_dir}/initdb", "--no-sync", "-D", data, "-A", "trust", "-U", "sluice")
        port = start_on_free_ports(start)
        try:
            yield f"postgres://sluice@127.0.0.1:{port}/postgres"
        finally:
            run(f"{bin_dir}/pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def _unprivileged(place: Path) -> str | None:
    """PostgreSQL refuses to run as root: the user that its package made, who needs the folder."""
    if os.geteuid() != 0:
        return None
    try:
        user = pwd.getpwnam(_SERVER_USER)
    except KeyError:
        pytest.skip(f"PostgreSQL does not run as root, and there is no user {_SERVER_USER}")
    os.chown(place, user.pw_uid, user.pw_gid)
    return _SERVER_USER
