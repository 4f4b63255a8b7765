"""An operation carried out in the shell's own process, where no worker has to run: asked for as any
other, with its row, its audit and its proof. What a worker would report goes into the database.

Anyone who has this shell has the database and the files, so no role is asked for; the audit has
their name on this machine. A user of the node who is named by `--as` needs the role, as on a page.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, connections

from controlplane.errors import NotAllowedNow
from controlplane.mirror.storage import engine_table
from controlplane.mirror.sync import sync_table
from controlplane.node.shell.identity import requester
from controlplane.operations.actions import do_record_report
from controlplane.operations.ask import Ask
from controlplane.operations.models import Operation
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.states import OperationState
from workers.clock import SystemClock
from workers.reporting import OperationReport, Reporter, ReportState
from workers.reporting.run_lock import hold_run_lock
from workers.table.table import Table

log = logging.getLogger(__name__)

Say = Callable[[str], object]
CarryOut = Callable[[dict[str, Any], Table, Reporter], None]
"""What a worker does with this message, once the job is its own."""
NO_REASON = "confirmed in the shell"
PROGRESS_EVERY_S = 1.0


def request_and_carry_out(
    ask: Ask[Any], *, reason: str, plan_hash: str, carry_out: CarryOut, say: Say
) -> OperationReport:
    """Its last report, which storage has borne out. The table is named in the command, as a person
    types its name into a form.

    Raises what `do_request` raises, LakehouseError, NotAllowedNow for one that did not succeed.
    """
    given = Given(reason=reason or NO_REASON, typed_name=ask.table.slug, plan_hash=plan_hash)
    operation = do_request(ask, requester(), given)
    if operation.state == OperationState.AWAITING.value:
        raise NotAllowedNow(
            "this requires an approval by another user: see the page Approvals or `approval list`",
            operation=str(operation.pk),
        )
    job = operation.parameters["job"]
    noted = NotedReports(say)
    with hold_run_lock(job["run_dir"], SystemClock()) as is_mine:
        assert is_mine, operation
        try:
            carry_out(job, engine_table(operation.table), noted)
        except (Exception, KeyboardInterrupt) as error:
            noted.send(
                OperationReport(
                    operation_id=str(operation.pk),
                    state=ReportState.FAILED,
                    message=f"{type(error).__name__}: {error}",
                )
            )
            raise
    sync_table(operation.table)
    _check_end(operation)
    assert noted.last is not None, operation
    return noted.last


class NotedReports:
    """Reports of this very process; a line of progress per tenth."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._clock = SystemClock()
        self._noted_at_s = float("-inf")
        self._tenth = 0
        self.last: OperationReport | None = None

    def send(self, report: OperationReport) -> None:
        self.last = report
        if report.state is ReportState.PROGRESS and self._is_too_early(report):
            return
        try:
            do_record_report(report.to_message())
        except DatabaseError as error:  # Settling finds out how it ended, as from a worker.
            log.warning("not noted: operation=%s error=%s", report.operation_id, error)
        if threading.current_thread() is not threading.main_thread():
            connections.close_all()

    def close(self, *, wait_s: float = 5.0) -> None:
        return

    def _is_too_early(self, report: OperationReport) -> bool:
        assert report.progress is not None, report
        done, total = report.progress.done, report.progress.total
        tenth = 10 * done // total if total else 10
        if tenth > self._tenth:
            self._tenth = tenth
            self._say(f"  {done} of {total}")
        now_s = self._clock.monotonic_s()
        if done < total and now_s - self._noted_at_s < PROGRESS_EVERY_S:
            return True
        self._noted_at_s = now_s
        return False


def _check_end(operation: Operation) -> None:
    operation.refresh_from_db()
    if operation.state != OperationState.SUCCEEDED.value:
        raise NotAllowedNow(
            operation.message or "the operation failed without a message: see its log",
            operation=str(operation.pk),
            state=operation.state,
        )
