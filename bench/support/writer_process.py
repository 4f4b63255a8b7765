"""One writer as a process of its own: it can be stopped, killed and paused at named points.

    python -m bench.support.writer_process '{"location": …, "name": …, "rows": […], "options": {…}}'

The last line of its output is the outcome as JSON. `WriterProcess` is the side of the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from workers.lakehouse import open_table

_ROOT = Path(__file__).resolve().parents[2]
_WAIT_MAX_S = 180.0
_POLL_S = 0.01


def main(order: Mapping[str, Any]) -> None:
    table = open_table(order["location"])
    outcome = table.write(pa.Table.from_pylist(order["rows"]), options=order["options"])
    sys.stdout.write(f"\n{json.dumps({'outcome': type(outcome).__name__, **asdict(outcome)})}\n")


class WriterProcess:
    def __init__(
        self,
        location: Path,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        *,
        options: Mapping[str, str],
        stop_points: Sequence[Mapping[str, str]] = (),
    ) -> None:
        order = {
            "location": str(location),
            "rows": list(rows),
            "options": {"sluice.writer.name": name, **options},
        }
        environment = {
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            "SLUICE_ALLOW_STOP_POINTS": "1",
            "SLUICE_STOP_POINTS": json.dumps([dict(point) for point in stop_points]),
        }
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.support.writer_process", json.dumps(order)],
            cwd=_ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def freeze(self) -> None:
        """Every thread of it: it cannot even renew its lease or beat."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def outcome(self) -> dict[str, Any]:
        """What it told its caller. Raises AssertionError when it failed."""
        out, err = self._process.communicate(timeout=_WAIT_MAX_S)
        assert self._process.returncode == 0, f"{self.name} ended badly: {err}"
        answer: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        return answer

    def await_death(self) -> None:
        self._process.communicate(timeout=_WAIT_MAX_S)
        assert self._process.returncode == -signal.SIGKILL, self._process.returncode

    def end(self) -> None:
        """Whatever state it is in; for the end of a test."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate(timeout=_WAIT_MAX_S)

    def await_file(self, path: Path) -> None:
        deadline = time.monotonic() + _WAIT_MAX_S
        while not path.exists():
            assert self._process.poll() is None, self._process.communicate()[1]
            assert time.monotonic() < deadline, f"{path} did not come"
            time.sleep(_POLL_S)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
