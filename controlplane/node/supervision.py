"""The supervisor of a node: its settings file, starting it detached, asking it, stopping it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

from supervisor.xmlrpc import Faults, SupervisorTransport

from controlplane.node.environment import supervisor_environment
from controlplane.node.identity import Identity
from controlplane.node.living import supervisor_pid
from controlplane.node.places import PROJECT, Places
from controlplane.node.processes import Process

_LOG_BYTES_MAX = "10MB"
_LOG_BACKUPS = 3
_START_RETRIES = 3
_POLL_S = 0.1


class SupervisorFailed(Exception):
    """The supervisor did not start or does not answer; the text says where to look."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    name: str
    state: str
    """Supervisor's word: RUNNING, STARTING, BACKOFF, STOPPED, EXITED, FATAL, ..."""
    pid: int
    up_s: int
    exit_status: int = 0

    @property
    def is_running(self) -> bool:
        return self.state == "RUNNING"

    @property
    def is_stopping(self) -> bool:
        return self.state == "STOPPING"

    @property
    def is_over(self) -> bool:
        """Never started, stopped on purpose, or done by itself."""
        return self.state == "STOPPED" or (self.state == "EXITED" and self.exit_status == 0)

    @property
    def has_given_up(self) -> bool:
        return self.state in ("FATAL", "EXITED", "UNKNOWN")


def settings_text(places: Places, identity: Identity, processes: Iterable[Process]) -> str:
    """`supervisord.conf`. It restarts what dies; what dies again and again it gives up on, and
    `status` says so.
    """
    sections = [
        "[supervisord]",
        f"directory={_escaped(PROJECT)}",
        f"pidfile={_escaped(places.supervisor_pid)}",
        f"logfile={_escaped(places.supervisor_log)}",
        f"childlogdir={_escaped(places.log)}",
        f"logfile_maxbytes={_LOG_BYTES_MAX}",
        f"logfile_backups={_LOG_BACKUPS}",
        "",
        "[unix_http_server]",
        f"file={_escaped(identity.supervisor_socket)}",
        "chmod=0700",
        "",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
    ]
    for priority, process in enumerate(processes, start=1):
        words = [sys.executable, "-m", process.launcher, process.name]
        sections += [
            "",
            f"[program:{process.name}]",
            f"command={_escaped(shlex.join(words))}",
            f"directory={_escaped(PROJECT)}",
            f"priority={priority}",
            f"autostart={'true' if process.starts_with_node else 'false'}",
            f"autorestart={'true' if process.starts_with_node else 'unexpected'}",
            "startsecs=2",
            f"startretries={_START_RETRIES}",
            "stopsignal=TERM",
            f"stopwaitsecs={process.stop_wait_s}",
            "killasgroup=true",
            "redirect_stderr=true",
            f"stdout_logfile={_escaped(log_file(places, process.name))}",
            f"stdout_logfile_maxbytes={_LOG_BYTES_MAX}",
            f"stdout_logfile_backups={_LOG_BACKUPS}",
        ]
    return "\n".join(sections) + "\n"


def log_file(places: Places, process: str) -> Path:
    """Celery starts the marker server: before that has a log, the worker's tells why."""
    if process == "markers":
        own = places.log / "marker-server.log"
        return own if own.is_file() else places.log / "worker.log"
    return places.log / f"{process}.log"


def start_supervisor(places: Places, identity: Identity, *, deadline_s: float = 15.0) -> Supervisor:
    """Detached: it outlives this command and the shell. Raises SupervisorFailed."""
    environ = supervisor_environment(os.environ) | {
        "PYTHONPATH": str(PROJECT),
        "SLUICE_HOME": str(places.home),
        "SLUICE_NODE": identity.node,
    }
    started = subprocess.run(
        [sys.executable, "-m", "supervisor.supervisord", "-c", str(places.supervisor_settings)],
        cwd=PROJECT,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )
    if started.returncode != 0:
        lines = (started.stderr or started.stdout).strip().splitlines()
        raise SupervisorFailed(
            f"the supervisor did not start: {lines[-1] if lines else 'no output'}"
        )
    supervisor = Supervisor(identity)
    until = time.monotonic() + deadline_s
    while not (supervisor.answers() and supervisor_pid(places)):
        if time.monotonic() > until:
            raise SupervisorFailed(
                f"the supervisor does not answer after {deadline_s:.0f} s; "
                f"see {places.supervisor_log}"
            )
        time.sleep(_POLL_S)
    return supervisor


class Supervisor:
    """Talks to the running supervisor over its private socket."""

    def __init__(self, identity: Identity) -> None:
        transport = SupervisorTransport(None, None, f"unix://{identity.supervisor_socket}")
        # The address is a form that the library wants; the transport goes to the socket.
        self._server: Any = ServerProxy("http://127.0.0.1", transport=transport).supervisor

    def answers(self) -> bool:
        try:
            return bool(self._server.getState()["statename"] == "RUNNING")
        except OSError:
            return False

    def states(self) -> dict[str, ProcessState]:
        """By name, in the order in which they start."""
        listed = sorted(self._server.getAllProcessInfo(), key=lambda process: process["start"] or 0)
        return {
            one["name"]: ProcessState(
                name=one["name"],
                state=one["statename"],
                pid=one["pid"],
                up_s=max(0, one["now"] - one["start"]) if one["pid"] else 0,
                exit_status=one["exitstatus"],
            )
            for one in listed
        }

    def start_process(self, name: str) -> None:
        """Returns when it has lived for its first seconds; one that runs goes on.

        Raises SupervisorFailed.
        """
        try:
            self._server.startProcess(name, True)
        except Fault as fault:
            if fault.faultCode != Faults.ALREADY_STARTED:
                raise SupervisorFailed(f"{name} does not start: {fault.faultString}") from fault

    def stop_process(self, name: str) -> None:
        """Returns when it has ended. One that does not run, or that nobody knows, is stopped
        already.
        """
        self.stop_processes([name])

    def stop_processes(self, names: Collection[str]) -> None:
        """Stop all of them at the same time, and return when the last one has ended."""
        for name in names:
            with suppress(Fault):  # It does not run, or there is no such process.
                self._server.stopProcess(name, False)
        while any(name in names and state.is_stopping for name, state in self.states().items()):
            time.sleep(_POLL_S)

    def shut_down(self) -> None:
        """Stop all that still runs at the same time, then itself. Return before it has ended."""
        # Its own shutdown takes a second for each process, stopped or not.
        self.stop_processes(self.states())
        self._server.shutdown()


def _escaped(value: object) -> str:
    """A percent sign begins a substitution, and a semicolon after a space a comment."""
    text = str(value)
    assert "\n" not in text, text
    return text.replace("%", "%%")
