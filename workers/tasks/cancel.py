"""Cancel a write: end its Spark tasks and its driver, and roll back its pending instants.

The order matters. No new driver may start. The session is interrupted and closed, so nothing new
runs in it. The driver's process group is killed. Tasks get their kill window. Only then the pending
instants are decided, each by its decision object.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from celery import shared_task

from workers.concurrency.heartbeat import read_heartbeats
from workers.errors import LakehouseError
from workers.jobs import CancelJob
from workers.options.write_options import SHORT_LIVED, write_options
from workers.ports import Ports, system_ports
from workers.recovery.rollback import RollbackRequest, rollback
from workers.reporting import OperationReport, ReportState
from workers.spark.process import (
    REMOTE_VARIABLE,
    TASK_KILL_WINDOW_S,
    forbid_launch,
    kill_driver,
)
from workers.storage.roots import storage_under_root
from workers.table.table import Table, open_
from workers.tasks.reports import open_reporter
from workers.tasks.signed_task import SignedTask

_log = logging.getLogger(__name__)


@shared_task(base=SignedTask, name=CancelJob.TASK, acks_late=True)
def cancel_write(message: dict[str, Any]) -> None:
    """Run a CancelJob. Report CANCELLED and the instants that were committed before."""
    job = CancelJob.from_message(message)
    with open_reporter(job, name="cancel") as reporter:
        ports = system_ports()
        run_dir = Path(job.run_dir)
        forbid_launch(run_dir)
        is_interrupted = _interrupt(job)
        was_alive = kill_driver(run_dir, job.pid, ports.clock)
        if is_interrupted or was_alive:
            ports.clock.sleep(TASK_KILL_WINDOW_S)
        outcome = roll_back_pending(job, ports)
        committed = ", ".join(outcome["committed"])
        message_text = f"cancelled; {committed} was committed before" if committed else "cancelled"
        reporter.send(
            OperationReport(
                operation_id=job.operation_id,
                state=ReportState.CANCELLED,
                message=message_text,
                outcome=outcome,
            )
        )


def roll_back_pending(job: CancelJob, ports: Ports) -> dict[str, list[str]]:
    """Roll back the pending instants of the operation, except those that are decided.

    Raises LockTimeout, and InvalidInput for a table outside the roots.
    """
    table = open_(storage_under_root(job.table, os.environ), ports)
    options = write_options({**SHORT_LIVED, "sluice.writer.name": job.by})
    outcome: dict[str, list[str]] = {"rolled_back": [], "committed": []}
    for instant in _list_pending(table, job.operation_id):
        request = RollbackRequest(
            instant,
            by=job.by,
            reason=job.reason,
            is_forced=True,
            is_only_pending=True,
            writer_has_ended=True,
        )
        ended = rollback(table, request, options)
        outcome["committed" if ended.is_committed else "rolled_back"].append(instant)
    return outcome


def _list_pending(table: Table, operation_id: str) -> list[str]:
    beats = [beat for beat in read_heartbeats(table.storage) if beat.operation_id == operation_id]
    return sorted(beat.instant for beat in beats)


def _interrupt(job: CancelJob) -> bool:
    """Interrupt the session, and return whether it had tasks. Without a server there are none."""
    remote = os.environ.get(REMOTE_VARIABLE, "")
    if not remote:
        return False
    from workers.spark.session import interrupt  # Late: it loads Spark, which few tasks need.

    try:
        return bool(interrupt(remote, session_id=job.session_id, user_id=job.user_id))
    except LakehouseError as error:
        _log.warning("not interrupted: operation=%s error=%s", job.operation_id, error)
        return True
