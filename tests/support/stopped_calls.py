"""Processes that do one thing for each line that they are told, and stop (SIGSTOP) right before the
n-th call that touches a name or opens a file below a directory. Killed or thawed by the test.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_ENDED = "ended"
_CALLS = frozenset(
    {
        "open",
        "fcntl.flock",
        "os.link",
        "os.listdir",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.scandir",
    }
)


def serve(action: Callable[[], object], *, below: str) -> None:
    """The side of the process: `action` for each number that is read, and its answer as JSON.

    A lock on an open file counts whatever is below.
    """
    left = 0

    def stop(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if left and event in _CALLS and (event == "fcntl.flock" or below in str(arguments[0])):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(stop)
    for line in sys.stdin:
        left = int(line)
        answer = action()
        if left:  # Fewer calls than that.
            made, left = int(line) - left, 0
            sys.stdout.write(f"{_ENDED} {made}\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGSTOP)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


class StoppedProcess:
    """The side of the test. `module` calls `serve`."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.calls = 0
        """How many there were, once it has come to its end without being stopped."""

    def begin(self, stopped_before: int = 0) -> None:
        """0 stops nowhere."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{stopped_before}\n")
        self._process.stdin.flush()

    def await_stopped(self) -> bool:
        """False when it came to its end without that many calls; it has to be thawed all the
        same.
        """
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], 0)[0]:
            return True
        said, made = self._process.stdout.readline().split()
        assert said == _ENDED, said
        self.calls = int(made)
        return False

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Whatever state it is in."""
        self._process.kill()
        self._process.communicate()
