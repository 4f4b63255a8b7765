"""`down`: first what starts new work, then the work, then what the work needs. Data stays.

Writers are asked to stop while the marker server, Spark and the web process still answer them.
Whatever is not gone in time is killed: storage is the truth, and the next writer's recovery settles
what a killed one left.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import psutil
from django.db import DatabaseError

from controlplane.node.identity import Identity, is_private, read_identity
from controlplane.node.living import end, is_writer, processes_of, supervisor_pid
from controlplane.node.places import Places
from controlplane.node.processes import WORKERS
from controlplane.node.supervision import Supervisor
from controlplane.operations.marker_server import shut_down

_WRITER_PATIENCE_S = 20.0
_PATIENCE_S = 10.0
_SHUTDOWN_S = 90.0


def stop(places: Places, say: Callable[[str], None]) -> bool:
    """Stop every process of this node; False when none ran."""
    identity = read_identity(places.identity)
    if identity is None:
        return False
    pid = supervisor_pid(places)
    if pid is None:
        was_running = _sweep(places, identity, say) > 0
        remove_sockets(identity)
        return was_running
    supervisor = Supervisor(identity)
    if supervisor.answers():
        say("stopping: no new work")
        supervisor.stop_process("beat")
        supervisor.stop_processes(WORKERS)
        if writers := [one for one in processes_of(places, identity) if is_writer(one)]:
            say(f"stopping {len(writers)} writers")
            end(writers, patience_s=_WRITER_PATIENCE_S)
        _drain_marker_server(say)
        supervised = {state.pid for state in supervisor.states().values()} | {pid}
        end(_unsupervised(places, identity, supervised), patience_s=_PATIENCE_S)
        say("stopping the services")
        supervisor.stop_processes(("web", "spark"))
        supervisor.shut_down()
        _wait_until_gone(pid)
    _sweep(places, identity, say)
    remove_sockets(identity)
    return True


def remove_sockets(identity: Identity) -> None:
    """The folder that `up` makes anew; nothing listens there any more."""
    if is_private(Path(identity.sockets)):
        shutil.rmtree(identity.sockets, ignore_errors=True)


def _drain_marker_server(say: Callable[[str], None]) -> None:
    """It writes what it has acknowledged; should it not end, the sweep ends it."""
    try:
        shut_down()
    except DatabaseError as error:
        say(f"the marker server is stopped without draining: {error}")


def _unsupervised(places: Places, identity: Identity, supervised: set[int]) -> list[psutil.Process]:
    """The marker server and the like; not what belongs to a supervised process, such as Spark's
    Python workers.
    """
    return [
        one
        for one in processes_of(places, identity)
        if not supervised & {one.pid, *(parent.pid for parent in one.parents())}
    ]


def _wait_until_gone(pid: int) -> None:
    try:
        psutil.Process(pid).wait(_SHUTDOWN_S)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        return


def _sweep(places: Places, identity: Identity, say: Callable[[str], None]) -> int:
    """What is left, in whatever state; normally nothing."""
    left = processes_of(places, identity)
    if left:
        say(f"stopping {len(left)} processes that were left")
    return end(left, patience_s=_PATIENCE_S)
