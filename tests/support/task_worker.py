"""A worker that carries out one job after the other, each in a process of its own that is killed
after so many seconds: `python -m tests.support.task_worker`, one job per line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    import workers.tasks  # Once, so that each job begins at once.

    tasks = {
        getattr(workers.tasks, name).name: getattr(workers.tasks, name)
        for name in workers.tasks.__all__
    }
    _say("ready")
    for line in sys.stdin:
        job = json.loads(line)
        if (child := os.fork()) == 0:
            _carry_out(tasks[job["task"]], job["message"], job["killed_after_s"])
        _, status = os.waitpid(child, 0)
        _say(os.waitstatus_to_exitcode(status))


def _say(message: object) -> None:
    sys.stdout.write(f"{json.dumps(message)}\n")
    sys.stdout.flush()


def _carry_out(task: Any, message: Mapping[str, Any], killed_after_s: float | None) -> None:
    if killed_after_s is not None:
        signal.signal(signal.SIGALRM, lambda number, frame: os.kill(os.getpid(), signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, killed_after_s)
    try:
        task.apply(args=[message]).get()
    finally:
        os._exit(0)


@dataclass(frozen=True, slots=True)
class TaskWorker:
    process: subprocess.Popen[str]

    def carry_out(
        self, task: str, message: Mapping[str, Any], *, killed_after_s: float | None = None
    ) -> bool:
        """False when it was killed at it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job = {"task": task, "message": dict(message), "killed_after_s": killed_after_s}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return bool(json.loads(self.process.stdout.readline()) == 0)


@contextmanager
def task_worker(environment: Mapping[str, str]) -> Iterator[TaskWorker]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.task_worker"],
        cwd=_ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == '"ready"\n'
        try:
            yield TaskWorker(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


if __name__ == "__main__":
    main()
