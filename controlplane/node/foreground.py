"""Run processes of a role in the foreground: pass a stop on to them, and end the writers that they
started.

A role of one process without writers becomes that process (`launch.become`). A worker of the queue
`engine` starts writers in sessions of their own, so its parent stays and ends them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence

import psutil

from controlplane.node.identity import Identity
from controlplane.node.launch import become
from controlplane.node.living import end, is_writer, processes_of
from controlplane.node.places import Places
from controlplane.node.processes import Process

_WRITER_PATIENCE_S = 20.0
_LEFT_PATIENCE_S = 10.0
_POLL_S = 0.1
_STOPS = (signal.SIGTERM, signal.SIGINT)
_NOT_STARTED = 127


class ProcessEnded(Exception):
    """A process ended although nothing stopped it; all others were stopped."""


def run_together(
    services: Sequence[Process],
    workers: Sequence[Process],
    places: Places,
    identity: Identity,
    *,
    drain_s: float,
    report: Callable[[str], object],
) -> None:
    """Run them until a signal stops this process: first the workers end their jobs, then running
    writers get `drain_s` to finish, then the services end.

    Raises ProcessEnded if one of them ends before that; the others are stopped all the same.
    """
    # Signals wait until they are asked for, so none arrives between a start and its note.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_STOPS, signal.SIGCHLD))
    running: dict[int, Process] = {}
    try:
        for process in (*services, *workers):
            running[_start(process, places, identity, before)] = process
        ending = _await_stop(running)
        report(ending or "stopping: no new work")
    finally:
        _stop_all(running, workers, drain_s=drain_s)
        _end_writers(places, identity, drain_s=drain_s, report=report)
        _stop_all(running, services, drain_s=0)
        end(processes_of(places, identity), patience_s=_LEFT_PATIENCE_S)
    if ending:
        raise ProcessEnded(f"{ending}; the others were stopped")


def _start(process: Process, places: Places, identity: Identity, mask: Iterable[int]) -> int:
    """Start it in a session of its own, so that signals of a terminal reach only this process."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            become(process, places, identity)
        finally:
            os._exit(_NOT_STARTED)
    return pid


def _await_stop(running: dict[int, Process]) -> str:
    """Wait for a signal that stops this process, or for the end of one that runs; return which one
    ended, or an empty text. Collects every child that ends, also those that it inherited.
    """
    while signal.sigwait((*_STOPS, signal.SIGCHLD)) == signal.SIGCHLD:
        while (child := _collect())[0]:
            pid, code = child
            if pid in running:
                return f"{running.pop(pid).name} ended with {code}"
    return ""


def _collect() -> tuple[int, int]:
    """Return pid and exit code of a child that ended, or zeros if all others run."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0
    return (pid, os.waitstatus_to_exitcode(status)) if pid else (0, 0)


def _stop_all(running: dict[int, Process], chosen: Sequence[Process], *, drain_s: float) -> None:
    """Stop these at the same time; one that does not end in time is killed with its session."""
    stopping = {pid: process for pid, process in running.items() if process in chosen}
    for pid in stopping:
        os.kill(pid, signal.SIGTERM)  # It is there until it is collected below.
    for pid, process in stopping.items():
        until_s = time.monotonic() + max(process.stop_wait_s, drain_s)
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until_s:
                os.killpg(pid, signal.SIGKILL)
            time.sleep(_POLL_S)
        del running[pid]


def _end_writers(
    places: Places, identity: Identity, *, drain_s: float, report: Callable[[str], object]
) -> None:
    writers = [process for process in processes_of(places, identity) if is_writer(process)]
    if not writers:
        return
    if drain_s:
        report(f"waiting up to {drain_s:.0f} s for {len(writers)} writers")
        _, writers = psutil.wait_procs(writers, timeout=drain_s)
    if writers:
        report(f"stopping {len(writers)} writers")
        end(writers, patience_s=_WRITER_PATIENCE_S)
