"""Which processes of this node live, found by what the system says of them, not by what a file
claims.

Every process of a node has SLUICE_NODE and SLUICE_HOME in its environment. So a writer or a marker
server that nobody supervises, or what a killed supervisor left behind, is found by that, and nobody
else's process ever is.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable

import psutil

from controlplane.node.identity import Identity
from controlplane.node.places import Places


def supervisor_pid(places: Places) -> int | None:
    """The pid of this node's supervisor, None when the pid file is missing or speaks of somebody
    else.
    """
    if not places.supervisor_pid.is_file():
        return None
    text = places.supervisor_pid.read_text().strip()
    if not text.isdigit():
        return None
    try:
        words = psutil.Process(int(text)).cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
    return int(text) if str(places.supervisor_settings) in words else None


def await_supervisor(places: Places) -> None:
    """Return when this node's supervisor has ended; at once where none runs."""
    pid = supervisor_pid(places)
    if pid is None:
        return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([descriptor], [], [])
    finally:
        os.close(descriptor)


def processes_of(places: Places, identity: Identity) -> list[psutil.Process]:
    """Every living process of this node but this one and those that it descends from."""
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [
        process
        for process in psutil.process_iter()
        if process.pid not in ours and _belongs(process, places, identity)
    ]


def is_writer(process: psutil.Process) -> bool:
    """Whether it is the driver program of a write, which wants the other services while it ends."""
    try:
        return "workers.spark.runner" in process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def end(processes: Iterable[psutil.Process], *, patience_s: float) -> int:
    """Ask each to stop, kill what has not stopped in time; how many there were."""
    living = list(processes)
    for process in living:
        _signal(process, signal.SIGTERM)
    _, stubborn = psutil.wait_procs(living, timeout=patience_s)
    for process in stubborn:
        # A stopped process receives nothing else, so this comes without asking what state it is in.
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(stubborn, timeout=patience_s)
    return len(living)


def _belongs(process: psutil.Process, places: Places, identity: Identity) -> bool:
    try:
        environ = process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    return environ.get("SLUICE_NODE") == identity.node and environ.get("SLUICE_HOME") == str(
        places.home
    )


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
