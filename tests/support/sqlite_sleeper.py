"""A process that stops (SIGSTOP) inside a change of the lock's record in SQLite, and holds SQLite's
own lock on the file for as long as it sleeps.

    python -m tests.support.sqlite_sleeper /path/to/locks.db changing

`changing`: in the middle of the statement, when others may still read. `committing`: when nobody
may. Woken, it takes its change back and ends.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from functools import cache
from pathlib import Path

MOMENTS = ("changing", "committing")
_ROOT = Path(__file__).resolve().parents[2]


def main(path: str, moment: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    if moment == "committing":
        connection.execute("BEGIN EXCLUSIVE")
        _sleep()
    else:
        connection.create_function("asleep", 0, _sleep)
        connection.execute("BEGIN")
        connection.execute("UPDATE sluice_table_lock SET record = record || asleep()")
    connection.execute("ROLLBACK")
    connection.close()


@cache
def _sleep() -> str:
    """Once, also when SQLite calls it for each row."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return ""


class SqliteSleeper:
    """The side of the test. It sleeps when this returns."""

    def __init__(self, path: str, moment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.sqlite_sleeper", path, moment], cwd=_ROOT
        )
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status

    def wake(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        """Whatever state it is in."""
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
