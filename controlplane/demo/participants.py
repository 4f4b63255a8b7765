"""SIGKILL to one worker of the demo's sink: its partitions fall silent, the transaction runs out of
time; the sink starts a worker again, and the next transaction has all of it.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from django.contrib.auth.models import User

from controlplane.audit.actions import do_record
from controlplane.demo.sink import SINK_ID, SLUG
from controlplane.demo.story import KILLED
from controlplane.errors import NotAllowedNow
from controlplane.mirror.sink_models import SinkParticipant
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.sink_stops import open_operation
from controlplane.tables.models import Table
from workers.spark.process import is_driver, read_pid

_ANCESTORS_MAX = 12


def do_kill_demo_participant(table: Table, by: User) -> int:
    """Kill the worker of the highest partition, which is seldom the coordinator's; its pid.

    Raises NotAllowedNow where the sink does not run, or its workers are not on this machine.
    """
    operation = open_operation(table, SINK_ID)
    folder = Path(run_dir(operation.pk)) if operation is not None else None
    driver = read_pid(folder) if folder is not None else None
    if folder is None or driver is None or not is_driver(driver, folder):
        raise NotAllowedNow(
            "the demo's sink does not run on this machine: start it again", table=table.slug
        )
    for partition, pid in _workers(table):
        if not _descends(pid, driver):
            continue
        do_record(
            who=by.get_username(),
            what=KILLED,
            subject=SLUG,
            result="succeeded",
            details={"pid": pid, "partition": partition},
        )
        os.kill(pid, signal.SIGKILL)
        return pid
    raise NotAllowedNow("the sink has no worker yet: wait for its first transaction")


def _workers(table: Table) -> list[tuple[int, int]]:
    """Partition and process of each participant on this machine, the highest partition first."""
    participants = SinkParticipant.objects.filter(
        sink__table=table, sink__sink_id=SINK_ID, worker__startswith=f"{socket.gethostname()}:"
    )
    named = participants.order_by("-partition").values_list("partition", "worker")
    pids = ((partition, worker.rpartition(":")[2]) for partition, worker in named)
    return [(partition, int(pid)) for partition, pid in pids if pid.isascii() and pid.isdigit()]


def _descends(pid: int, ancestor: int) -> bool:
    """Whether this process was started by that one, or by what it started: a number that somebody
    else's process has by now is nobody of ours.
    """
    for _ in range(_ANCESTORS_MAX):
        if pid == ancestor:
            return True
        if pid <= 1:
            return False
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        pid = int(stat.rpartition(")")[2].split()[1])
    return False
