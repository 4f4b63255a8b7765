"""The driver process of an operation, as reconcile sees it: whether it lives, what it said last."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

from controlplane.mirror.models import HeartbeatRecord
from controlplane.operations.models import Operation
from controlplane.operations.reports import record_report
from controlplane.operations.run_dirs import run_dir
from workers.spark.process import ENDING_FILE, is_driver, read_pid

QUIET = timedelta(seconds=5)
"""A report may still be on its way from a process that has just ended."""
SILENT_AFTER = timedelta(minutes=5)


def was_launched(operation: Operation) -> bool:
    return read_pid(Path(run_dir(operation.pk))) is not None


def driver_is_gone(operation: Operation, now: datetime) -> bool:
    if now - operation.changed_at < QUIET:
        return False
    folder = Path(run_dir(operation.pk))
    pid = read_pid(folder)
    if pid is not None:
        return not is_driver(pid, folder)
    # It never started, or runs on another machine, where only its heartbeat and reports are seen.
    return now - operation.changed_at > SILENT_AFTER and not _is_beating(operation, now)


def take_ending(operation: Operation) -> bool:
    """The driver's own last word, where its report was lost but its run directory is at hand."""
    path = Path(run_dir(operation.pk)) / ENDING_FILE
    try:
        ending = json.loads(path.read_bytes())
        report = {"operation_id": str(operation.pk), "state": ending["state"]}
        report |= {"message": ending.get("message"), "instant": ending.get("instant")}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
    return record_report(report)


def _is_beating(operation: Operation, now: datetime) -> bool:
    beats = HeartbeatRecord.objects.filter(
        table=operation.table, operation_ref=str(operation.pk), is_gone=False
    )
    return any(
        beat.liveness(age_s=(now - beat.beat_at).total_seconds()) != "expired" for beat in beats
    )
