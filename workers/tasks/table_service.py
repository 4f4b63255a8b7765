"""Carry out a table service that a user confirmed or a schedule started, and report its progress.

A job is repeated if its worker died or its last report was lost. The second run finds its own
instant or plan on the timeline, or nothing to do. It never fails because the first run changed the
table.

A cancelled job stops between two items of its plan. The plan stays pending, and the next run
resumes it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Task, shared_task

from workers.clock import InstantTime
from workers.errors import ServiceBusy
from workers.jobs import ServiceJob
from workers.loading.source_files import rows_under_root
from workers.options.write_options import SHORT_LIVED, WriteOptions, write_options
from workers.ports import system_ports
from workers.reporting import OperationReport, Progress, Reporter, ReportState
from workers.reporting.run_lock import hold_run_lock
from workers.spark.process import is_forbidden
from workers.storage.roots import storage_under_root
from workers.table.schema_history import read_instant
from workers.table.table import Table, open_
from workers.table_services import registry
from workers.table_services.input_rows import PATH_KEY
from workers.table_services.service import Service, ServiceOutcome, ServicePlan, ServiceRequest
from workers.tasks.authorization import is_authorized_to_start
from workers.tasks.reports import keep_alive, open_reporter
from workers.tasks.signed_task import SignedTask
from workers.timeline.metadata import OPERATION_KEY

_COMMITS_CHECKED_MAX = 200


@shared_task(base=SignedTask, name=ServiceJob.TASK, acks_late=True, bind=True)
def run_service(self: Task[..., None], message: dict[str, Any]) -> None:
    """Run a ServiceJob. A second run ends at once while the first one is running."""
    job = ServiceJob.from_message(message)
    delivery = self.request.delivery_info or {}
    is_again = job.attempt > 0 or bool(delivery.get("redelivered"))
    with (
        hold_run_lock(job.run_dir, system_ports().clock) as is_mine,
        open_reporter(job) as reporter,
    ):
        if not is_mine or not is_authorized_to_start(job, system_ports().clock):
            return
        table = open_(storage_under_root(job.table, os.environ), system_ports())
        if path := job.parameters.get(PATH_KEY, "").strip():
            rows_under_root(path, os.environ)
        carry_out_service(job, table, reporter, is_again=is_again)


def carry_out_service(
    job: ServiceJob, table: Table, reporter: Reporter, *, is_again: bool = False
) -> None:
    """Carry out the job in this process, which must hold its lock. The caller reports failures.

    `is_again`: the job may have been started before. Raises LakehouseError.
    """
    _Run(job, table, reporter, is_again=is_again).carry_out()


class _Run:
    def __init__(
        self, job: ServiceJob, table: Table, reporter: Reporter, *, is_again: bool
    ) -> None:
        self._job = job
        self._table = table
        self._reporter = reporter
        self._is_again = is_again

    def carry_out(self) -> None:
        job = self._job
        if self._is_cancelled():
            self._report(ReportState.CANCELLED, "cancelled before it began")
            return
        service = registry.get_service(job.service)
        table = self._table
        self._report(ReportState.RUNNING, f"{job.service} begins")
        expected = job.plan_hash
        if self._is_again:
            done = _find_completed_write(table, job.operation_id)
            plan = None if done else service.plan(table, job.parameters)
            if plan is None or plan.is_done or (plan.is_empty and not plan.blockers):
                self._report(ReportState.SUCCEEDED, "nothing is left to do", instant=done)
                return
            expected = None if _is_continued(table, plan) else expected
        try:
            with keep_alive(self._report_alive):
                outcome = self._run_service(service, table, expected)
        except _Cancelled as cancelled:
            self._report_cancelled(service, table, cancelled)
            return
        if outcome is not None:
            self._report(
                ReportState.SUCCEEDED,
                "; ".join([outcome.summary, *outcome.warnings]),
                instant=outcome.instant,
                outcome={"figures": dict(outcome.figures)},
            )

    def _run_service(
        self, service: Service, table: Table, expected: str | None
    ) -> ServiceOutcome | None:
        """Run the service. Return None if another process is running the same job."""
        request = ServiceRequest(
            by=self._job.by,
            reason=self._job.reason,
            parameters=self._job.parameters,
            expected_plan_hash=expected,
        )
        try:
            return service.run(table, request, self._options(), self._on_progress)
        except ServiceBusy:
            if not self._is_again:
                raise
            self._report(ReportState.RUNNING, "another process is at it")
            return None

    def _options(self) -> WriteOptions:
        return write_options(
            {
                **SHORT_LIVED,
                "sluice.operation.id": self._job.operation_id,
                "sluice.writer.name": f"{self._job.service} by {self._job.by}",
            }
        )

    def _on_progress(self, done: int, total: int) -> None:
        """Report progress. Services call it where they can stop, before each item."""
        self._report(ReportState.PROGRESS, self._job.service, Progress(done, total, "items"))
        is_stoppable = self._job.service not in registry.FINISHED_ONCE_BEGUN and done < total
        if is_stoppable and self._is_cancelled():
            raise _Cancelled(done, total)

    def _is_cancelled(self) -> bool:
        return self._job.run_dir is not None and is_forbidden(Path(self._job.run_dir))

    def _report_cancelled(self, service: Service, table: Table, cancelled: _Cancelled) -> None:
        done, total = cancelled.done, cancelled.total
        plan = service.plan(table, self._job.parameters)
        is_pending = _is_continued(table, plan)
        rest = "what was done stays" if done else "nothing was changed"
        if is_pending:
            rest = "its plan stays pending, the next run takes it up"
        self._report(
            ReportState.CANCELLED,
            f"stopped after {done} of {total}; {rest}",
            Progress(done, total, "items"),
            instant=plan.instant if is_pending else None,
        )

    def _report_alive(self) -> None:
        """Report that the service is running, because one large file group may take minutes."""
        self._report(ReportState.RUNNING, f"{self._job.service} is at work")

    def _report(
        self, state: ReportState, message: str, progress: Progress | None = None, **facts: Any
    ) -> None:
        self._reporter.send(
            OperationReport(
                operation_id=self._job.operation_id,
                state=state,
                message=message,
                progress=progress,
                **facts,
            )
        )


class _Cancelled(Exception):
    """A user cancelled the run, which is not an error of the engine."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"cancelled after {done} of {total}")
        self.done = done
        self.total = total


def _find_completed_write(table: Table, operation_id: str) -> InstantTime | None:
    """Return the newest write that the operation completed, among the last ones, or None."""
    for instant in reversed(table.timeline().list_completed_writes()[-_COMMITS_CHECKED_MAX:]):
        if read_instant(table, instant).extra_metadata.get(OPERATION_KEY) == operation_id:
            return instant.requested_at
    return None


def _is_continued(table: Table, plan: ServicePlan) -> bool:
    """Check whether an earlier run stored its plan, which then has an instant and another hash."""
    return any(instant.requested_at == plan.instant for instant in table.timeline().pending())
