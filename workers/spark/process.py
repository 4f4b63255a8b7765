"""The driver program as a process: start it once per operation, look at it, kill it with its group.

What is known of it lies in the operation's run directory. A pid is only trusted while the process
behind it carries the run directory in its command line, because pids are used again. Spark itself
is not loaded here.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from workers.clock import Clock, SystemClock
from workers.given_connection import CONNECTION_VARIABLE
from workers.jobs import DriverJob
from workers.log_lines import REQUEST_VARIABLE, current_request_id
from workers.masking import is_secret_name
from workers.reporting.tokens import KEY_VARIABLE, TOKEN_VARIABLE, find_token
from workers.sink.kafka.allowed_brokers import PASSWORD_PREFIX
from workers.spark.input_modules import INPUTS_VARIABLE, names_for_driver
from workers.traces import PARENT_VARIABLE, current_parent

JOB_FILE: Final = "job.json"
LOG_FILE: Final = "driver.log"
DRIVER_FILE: Final = "driver.json"
ENDING_FILE: Final = "ending.json"
CANCELLED_FILE: Final = "cancelled"
LOCK_FILE: Final = "driver.lock"
LOCK_VARIABLE: Final = "SLUICE_DRIVER_LOCK"
"""The descriptor by which a driver holds its lock from birth: its launcher may die at any moment,
also between its start and the note of its pid, and nobody starts a second one then.
"""
REMOTE_VARIABLE: Final = "SLUICE_SPARK_REMOTE"
TASK_KILL_WINDOW_S: Final = 4.0
"""How long a task may still run after an interrupt: Spark gives its Python worker 2 s."""

_LAUNCH_LOCK = "launch.lock"
_MODULE = "workers.spark.runner"
_PROJECT_ROOT = Path(__file__).resolve().parents[2]
_KILL_WAIT_S = 10.0
_STARTING_S = 1.0
_POLL_S = 0.05
_NOT_FOR_DRIVERS = ("SLUICE_SECRET_KEY", "SLUICE_DATABASE", "SLUICE_REDIS_URL", KEY_VARIABLE)
"""What the control plane keeps to itself: a driver needs no database and signs no cookie."""
_SECRETS_OF_DRIVERS = (
    *("AWS_", "AZURE_", "GOOGLE_", PASSWORD_PREFIX, CONNECTION_VARIABLE),
    *("SLUICE_MARKER_SECRET", "SPARK_CONNECT_AUTHENTICATE_TOKEN"),
)
"""Begins of names. What else is named like a secret is none of a driver's, known here or not."""


def launch(job: DriverJob, environment: Mapping[str, str]) -> int | None:
    """Start the driver of this job, detached, in its own process group; its pid.

    Started once: the pid of a driver that lives already is answered again; None when it has ended,
    died or was cancelled, which is not this function's to repair, and when one lives whose pid
    nobody has noted yet.
    """
    run_dir = Path(job.run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    with _launching(run_dir), (run_dir / LOCK_FILE).open("a") as own:
        if is_forbidden(run_dir):
            return None
        known = read_pid(run_dir)
        if known is not None or (run_dir / ENDING_FILE).exists():
            return known if known and is_driver(known, run_dir) else None
        if not is_only(own):
            return None
        job_file = run_dir / JOB_FILE
        job_file.write_text(json.dumps(job.to_message()))
        with (run_dir / LOG_FILE).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(job_file)],
                env={
                    **driver_environment(environment, job.operation_id),
                    LOCK_VARIABLE: str(own.fileno()),
                },
                pass_fds=(own.fileno(),),
                cwd=_PROJECT_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        (run_dir / DRIVER_FILE).write_text(json.dumps({"pid": process.pid}))
        return process.pid


def driver_environment(environment: Mapping[str, str], operation_id: str) -> dict[str, str]:
    """With the token of this operation's reports in place of what all such tokens are made of, and
    with the input modules that this process knows.
    """
    passed_on = {
        name: value
        for name, value in environment.items()
        if name not in _NOT_FOR_DRIVERS
        and not name.startswith("DJANGO_")
        and (name.startswith(_SECRETS_OF_DRIVERS) or not is_secret_name(name))
    }
    return {
        **passed_on,
        TOKEN_VARIABLE: find_token(operation_id, environment),
        INPUTS_VARIABLE: names_for_driver(environment),
        REQUEST_VARIABLE: current_request_id.get(),
        PARENT_VARIABLE: current_parent(),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
    }


def is_only(lock: IO[str]) -> bool:
    """Whether this open file has the driver's lock now, which it holds until all who got it from
    here have ended.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def forbid_launch(run_dir: Path) -> None:
    """A launch that comes after a cancellation finds this and starts nothing."""
    run_dir.mkdir(parents=True, exist_ok=True)
    with _launching(run_dir):
        (run_dir / CANCELLED_FILE).touch()


def is_forbidden(run_dir: Path) -> bool:
    """Whether the operation was cancelled."""
    return (run_dir / CANCELLED_FILE).exists()


def was_launched(run_dir: Path) -> bool:
    """Whether a driver was started in this directory, whatever became of it."""
    return read_pid(run_dir) is not None or (run_dir / ENDING_FILE).exists()


def read_pid(run_dir: Path) -> int | None:
    """The pid that the driver of this directory put down; None where none is, or the file is
    damaged.

    It may have ended, and another process have its pid: see `is_driver`.
    """
    try:
        pid = json.loads((run_dir / DRIVER_FILE).read_bytes())["pid"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return int(pid) if type(pid) is int and pid > 1 else None


def is_driver(pid: int, run_dir: Path) -> bool:
    """Whether `pid` lives and is this operation's driver. A zombie has ended."""
    folder = Path("/proc") / str(pid)
    try:
        words = _command_line(folder)
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X") and str(run_dir / JOB_FILE).encode() in words


def _command_line(folder: Path) -> list[bytes]:
    """The words of a process; one that is just being started shows none for a moment."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + _STARTING_S
    while not (content := (folder / "cmdline").read_bytes()) and clock.monotonic_s() < deadline_s:
        if (folder / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X"):
            break
        clock.sleep(0.01)
    return content.split(b"\0")


def kill_driver(run_dir: Path, pid: int | None, clock: Clock) -> bool:
    """SIGKILL to the driver's whole group, and wait for its end; False when none lives."""
    chosen = next(
        (one for one in (pid, read_pid(run_dir)) if one is not None and is_driver(one, run_dir)),
        None,
    )
    if chosen is None:
        return False
    with suppress(ProcessLookupError):
        if os.getpgid(chosen) == chosen:
            os.killpg(chosen, signal.SIGKILL)
        else:
            os.kill(chosen, signal.SIGKILL)
    deadline_s = clock.monotonic_s() + _KILL_WAIT_S
    while is_driver(chosen, run_dir) and clock.monotonic_s() < deadline_s:
        clock.sleep(_POLL_S)
    return True


@contextmanager
def _launching(run_dir: Path) -> Iterator[None]:
    with (run_dir / _LAUNCH_LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
