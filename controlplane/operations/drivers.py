"""The driver process of an operation, as reconcile sees it: whether it lives, what it said last.

One on another machine is no process here. It lives while it reports, and while its heart beats
beside the table, which needs no web process to be heard.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

from controlplane.mirror.storage import storage_of
from controlplane.operations.living import QUIET, is_beating
from controlplane.operations.models import Operation
from controlplane.operations.own_beats import own_beats
from controlplane.operations.reports import do_record_report
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import FINAL, OperationState
from controlplane.operations.write_outcomes import newest_instant
from workers.spark.process import ENDING_FILE, is_driver, read_pid
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision

SILENT_AFTER = timedelta(seconds=35)
"""On another machine: without a report, and what beat beside the table has run out."""
UNDONE_AFTER = timedelta(seconds=60)
"""Without a report, and what it had begun was rolled back: one that lives begins anew by then."""
UNSEEN_AFTER = timedelta(minutes=5)
"""Without a report and with nothing beside the table, where nobody waits for it. Its reports may
have been lost, since web may be away for so long.
"""


def was_launched(operation: Operation) -> bool:
    return read_pid(Path(run_dir(operation.pk))) is not None


def driver_is_gone(operation: Operation, now: datetime) -> bool:
    """Whether its process has ended. Raises LakehouseError when it is on another machine and
    storage does not answer.
    """
    silent_for = now - operation.changed_at
    if silent_for < QUIET:
        return False
    folder = Path(run_dir(operation.pk))
    pid = read_pid(folder)
    if pid is not None:
        return not is_driver(pid, folder)
    # It never started, or runs on another machine. Once nobody knows how it ended, it has ended.
    if operation.state == OperationState.UNKNOWN.value:
        return True
    if silent_for < SILENT_AFTER or is_beating(operation, now):
        return False
    return silent_for > UNSEEN_AFTER or _had_begun(operation, silent_for)


def take_ending(operation: Operation) -> bool:
    """Whether the operation ended by its driver's own last word, where its report was lost but its
    run directory is at hand. False also for a word that storage does not bear out.
    """
    path = Path(run_dir(operation.pk)) / ENDING_FILE
    try:
        ending = json.loads(path.read_bytes())
        report = {"operation_id": str(operation.pk), "state": ending["state"]}
        report |= {"message": ending.get("message"), "instant": ending.get("instant")}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
    do_record_report(report)
    operation.refresh_from_db()
    return OperationState(operation.state) in FINAL | {OperationState.UNKNOWN}


def _had_begun(operation: Operation, silent_for: timedelta) -> bool:
    """Of one whose heart does not beat: whether it has something pending, or had and lost it."""
    if own_beats(operation):
        return True
    instant = newest_instant(operation)
    if not instant or silent_for < UNDONE_AFTER:
        return False
    match decisions.read(storage_of(operation.table), instant):
        case RollbackDecision(conflict=None):
            return True
        case _:
            return False
