"""A PostgreSQL cluster of its own, where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from workers.processes import start_on_free_ports

ROLE = "sluice"
"""The superuser of each cluster, who needs no password."""
_SERVER_USER = "postgres"
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""The data need not survive a crash of the machine."""


class PostgresFailed(AssertionError):
    """The server did not start; the message is its log."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The files of one cluster. Its folder is none of pytest's, which only their owner may enter:
    PostgreSQL refuses to run as root, so the user that its package made has to enter it.
    """

    folder: Path
    bin_dir: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def create(self) -> None:
        if os.geteuid() == 0:
            user = pwd.getpwnam(_SERVER_USER)
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self._run("initdb", "--no-sync", "-D", str(self.data), "-A", "trust", "-U", ROLE)

    def start(self, *settings: str) -> None:
        """Start the server and wait until it accepts connections. Raises PostgresFailed."""
        options = " ".join(f"-c {setting}" for setting in (*_QUICK, *settings))
        self.log.unlink(missing_ok=True)
        words = ("-D", str(self.data), "-o", options, "-l", str(self.log), "-w", "start")
        try:
            self._run("pg_ctl", *words)
        except subprocess.CalledProcessError as error:
            text = self.log.read_text() if self.log.exists() else error.stderr
            raise PostgresFailed(text) from error

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self.bin_dir / program), *words],
            user=_SERVER_USER if os.geteuid() == 0 else None,
            check=True,
            capture_output=True,
            cwd="/",
            timeout=120,
        )


def programs() -> Path | None:
    """Where `initdb` and `pg_ctl` are; Debian keeps them off the path."""
    initdb = shutil.which("initdb")
    if initdb is not None:
        return Path(initdb).parent
    # Its clients alone make the folder too.
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    return installed[0].parent if installed else None


def find_obstacle() -> str:
    """Return why no cluster can be started here, empty if one can."""
    if programs() is None:
        return "PostgreSQL's server programs are not installed"
    if os.geteuid() == 0 and not any(user.pw_name == _SERVER_USER for user in pwd.getpwall()):
        return f"PostgreSQL does not run as root, and there is no user {_SERVER_USER}"
    return ""


@contextmanager
def postgres_cluster() -> Iterator[str]:
    """Yield the address of an empty cluster on loopback."""
    bin_dir = programs()
    if (obstacle := find_obstacle()) or bin_dir is None:
        pytest.skip(obstacle)
    with TemporaryDirectory(prefix="sluice-postgres-") as folder:
        cluster = Cluster(Path(folder), bin_dir)
        cluster.create()

        def start(port: int) -> int:
            cluster.start("listen_addresses=127.0.0.1", "unix_socket_directories=", f"port={port}")
            return port

        port = start_on_free_ports(start)
        try:
            yield f"postgres://{ROLE}@127.0.0.1:{port}/postgres"
        finally:
            cluster.stop()
