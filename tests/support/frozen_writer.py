"""A writer as a process of its own that stops itself (SIGSTOP) before its n-th data file, and once
it is woken is killed right behind that file.

    python -m tests.support.frozen_writer '{"location": …, "rows": […], "options": {…}, "file": 2}'
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.watched_storage import WatchedStorage
from workers.lakehouse import open_table

_ROOT = Path(__file__).resolve().parents[2]
_WAIT_MAX_S = 60.0
_POLL_S = 0.01


def main(order: Mapping[str, Any]) -> None:
    opened: list[str] = []

    def before(call: str, path: str) -> None:
        if call == "create_data" and path.endswith(".parquet"):
            opened.append(path)
            if len(opened) == order["file"]:
                os.kill(os.getpid(), signal.SIGSTOP)

    def after(call: str, path: str) -> None:
        if call == "create_data" and len(opened) == order["file"]:
            os.kill(os.getpid(), signal.SIGKILL)

    storage = WatchedStorage(Path(order["location"]), before=before, after=after)
    table = open_table(order["location"], storage=storage)
    table.write(pa.Table.from_pylist(order["rows"]), options=order["options"])


class FrozenWriter:
    """The side of the test. Returns stopped before its data file."""

    def __init__(
        self,
        location: Path,
        rows: Sequence[Mapping[str, Any]],
        *,
        options: Mapping[str, str],
        file: int,
    ) -> None:
        order = {"location": str(location), "rows": rows, "options": options, "file": file}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.frozen_writer", json.dumps(order)],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
        )
        self._await_state("T")

    def writes_its_file_and_is_killed(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)
        assert self._process.wait(_WAIT_MAX_S) == -signal.SIGKILL

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(_WAIT_MAX_S)

    def _await_state(self, wanted: str) -> None:
        deadline_s = time.monotonic() + _WAIT_MAX_S
        while self._state() != wanted:
            assert self._process.poll() is None, "the writer ended before its file"
            assert time.monotonic() < deadline_s
            time.sleep(_POLL_S)

    def _state(self) -> str:
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
