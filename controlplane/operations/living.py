"""Whether somebody is still at an operation, whatever was reported of it: the driver of a write or
a sink, or a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

from controlplane.mirror.queries.sinks import OVER, SILENT_AFTER
from controlplane.mirror.storage import storage_of
from controlplane.operations.models import Operation
from controlplane.operations.own_beats import own_beats
from controlplane.operations.run_dirs import run_dir
from workers.reporting.run_lock import is_running, was_started
from workers.sink.runtime.launch import get_run_id, to_run_id
from workers.sink.state_file import read_state
from workers.spark.process import ENDING_FILE, is_driver, read_pid

QUIET = timedelta(seconds=5)
"""A report may still be on its way from a process that has just ended."""
WORKER_SILENT_AFTER = timedelta(seconds=35)
"""A worker that cannot be seen from here says every ten seconds that it lives."""
Heard = Callable[[Operation, datetime], bool]


def is_beating(operation: Operation, now: datetime) -> bool:
    """Whether something of it that lives is pending on the table."""
    now_ms = int(now.timestamp() * 1000)
    return any(not beat.is_expired(now_ms) for beat in own_beats(operation))


def may_still_act(operation: Operation, is_heard: Heard = is_beating) -> bool:
    """A driver of this machine does until it has written its last word down or its process is gone;
    one elsewhere while it `is_heard`.

    Raises LakehouseError, OSError when storage does not answer.
    """
    folder = Path(run_dir(operation.pk))
    pid = read_pid(folder)
    if pid is not None:
        return not (folder / ENDING_FILE).exists() and is_driver(pid, folder)
    return is_heard(operation, timezone.now())


def sink_is_heard(operation: Operation, now: datetime) -> bool:
    """Its heart beats, or it says how it is."""
    return is_beating(operation, now) or _says_its_state(operation, now)


def worker_is_gone(operation: Operation, now: datetime) -> bool:
    """Whether no worker is at it any more: by the lock of its run directory, and elsewhere by what
    it said last.
    """
    silent_for = now - operation.changed_at
    folder = Path(run_dir(operation.pk))
    if was_started(folder):
        return silent_for > QUIET and not is_running(folder)
    return silent_for > WORKER_SILENT_AFTER


def _says_its_state(operation: Operation, now: datetime) -> bool:
    state = read_state(storage_of(operation.table), operation.sink_id)
    if state is None or state.state in OVER:
        return False
    is_own = get_run_id(state.owner) == to_run_id(str(operation.pk))
    return (
        is_own and now.timestamp() * 1000 - state.updated_ms < SILENT_AFTER.total_seconds() * 1000
    )
