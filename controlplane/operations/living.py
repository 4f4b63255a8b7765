"""Whether the driver of a write or a sink may still do something, whatever was reported of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from django.utils import timezone

from controlplane.mirror.queries.sinks import OVER, SILENT_AFTER
from controlplane.mirror.storage import storage_of
from controlplane.operations.models import Operation
from controlplane.operations.own_beats import own_beats
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OperationKind
from workers.sink.runtime.launch import launch_id, launch_of
from workers.sink.state_file import read_state
from workers.spark.process import ENDING_FILE, is_driver, read_pid


def is_beating(operation: Operation, now: datetime) -> bool:
    """Whether something of it that lives is pending on the table."""
    now_ms = int(now.timestamp() * 1000)
    return any(not beat.is_expired(now_ms) for beat in own_beats(operation))


def may_still_act(operation: Operation) -> bool:
    """A driver of this machine does until it has written its last word down or its process is gone;
    one elsewhere while its heart beats or its sink tells how it is.

    Raises LakehouseError, OSError when storage does not answer.
    """
    folder = Path(run_dir(operation.pk))
    pid = read_pid(folder)
    if pid is not None:
        return not (folder / ENDING_FILE).exists() and is_driver(pid, folder)
    now = timezone.now()
    is_sink = operation.kind == OperationKind.SINK.value
    return is_beating(operation, now) or (is_sink and _tells_its_state(operation, now))


def _tells_its_state(operation: Operation, now: datetime) -> bool:
    state = read_state(storage_of(operation.table), operation.sink_id)
    if state is None or state.state in OVER:
        return False
    is_own = launch_of(state.owner) == launch_id(str(operation.pk))
    return (
        is_own and now.timestamp() * 1000 - state.updated_ms < SILENT_AFTER.total_seconds() * 1000
    )
