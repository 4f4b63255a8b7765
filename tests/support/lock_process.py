"""Somebody who wants a table's lock, as a process of its own that can be frozen and killed.

    python -m tests.support.lock_process '{"location": …, "options": {…}, "do": "hold", …}'

It says what it did in lines of JSON. `hold` waits for a line of input before it goes on; `count`
adds one to a number in a file `times` times, by reading and writing it under the lock.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.concurrency.lock_takeover import table_lock
from workers.errors import LakehouseError
from workers.lakehouse import open_table
from workers.options.write_options import WriteOptions, write_options
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision

_ROOT = Path(__file__).resolve().parents[2]
_WAIT_MAX_S = 60.0


def main(order: Mapping[str, Any]) -> None:
    table = open_table(order["location"]).table
    options = write_options(order["options"])
    if order["do"] == "count":
        count(table, options, Path(order["file"]), order["times"])
    else:
        hold(table, options, order["instant"])


def count(table: Table, options: WriteOptions, file: Path, times: int) -> None:
    epochs = []
    for _ in range(times):
        with table_lock(table, options).hold() as lease:
            number = int(file.read_text())
            lease.confirm()
            file.write_text(str(number + 1))
            epochs.append(lease.epoch)
    say(epochs=epochs)


def hold(table: Table, options: WriteOptions, instant: str) -> None:
    """Then confirm, and publish in spite of what that says, as one who slept right after it."""
    with table_lock(table, options).hold(completing=instant) as lease:
        say(held=lease.epoch)
        sys.stdin.readline()
        confirmed = "confirmed"
        try:
            lease.confirm()
        except LakehouseError as error:
            confirmed = type(error).__name__
        decision = CommitDecision(instant, "a-nonce", "commit", "no digest")
        say(confirm=confirmed, published=decisions.decide(table.storage, instant, decision))
    say(released=True)


def say(**fields: Any) -> None:
    sys.stdout.write(f"{json.dumps(fields)}\n")
    sys.stdout.flush()


class LockProcess:
    def __init__(self, location: Path, options: Mapping[str, str], **order: Any) -> None:
        words = json.dumps({"location": str(location), "options": dict(options), **order})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.lock_process", words],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def next_answer(self) -> dict[str, Any]:
        """Its next line. Raises AssertionError when it ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._process.communicate()[1]
        answer: dict[str, Any] = json.loads(line)
        return answer

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def freeze(self) -> None:
        """Every thread of it: it cannot even renew its lease."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=_WAIT_MAX_S)

    def end(self) -> None:
        if self._process.poll() is None:
            self.kill()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
