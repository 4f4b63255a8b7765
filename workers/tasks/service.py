"""Carry out a table service that a person confirmed or a schedule started, with its progress.

A job that comes again (its worker died, or its last report was lost) finds its own plan on the
timeline or nothing left to do; it never fails because its first run changed the table.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Task, shared_task

from workers.config import WriteOptions, write_options
from workers.errors import ServiceBusy
from workers.jobs import ServiceJob
from workers.ports import system_ports
from workers.reporting import OperationReport, Progress, Reporter, ReportState
from workers.services import registry
from workers.services.service import Service, ServiceOutcome, ServicePlan, ServiceRequest
from workers.spark.roots import storage_under_root
from workers.table.table import Table, open_
from workers.tasks.reports import reporting

ALIVE_EVERY_S = 10.0
"""Silence for longer than a few of these is a dead worker, and the job is sent again."""


@shared_task(name=ServiceJob.TASK, acks_late=True, bind=True)
def run_service(self: Task[..., None], message: dict[str, Any]) -> None:
    job = ServiceJob.from_message(message)
    delivery = self.request.delivery_info or {}
    is_again = job.attempt > 0 or bool(delivery.get("redelivered"))
    with reporting(job.operation_id, job.report_url) as reporter:
        _Run(job, reporter, is_again=is_again).carry_out()


class _Run:
    def __init__(self, job: ServiceJob, reporter: Reporter, *, is_again: bool) -> None:
        self._job = job
        self._reporter = reporter
        self._is_again = is_again

    def carry_out(self) -> None:
        job = self._job
        service = registry.service(job.service)
        table = open_(storage_under_root(job.table, os.environ), system_ports())
        self._report(ReportState.RUNNING, f"{job.service} begins")
        expected = job.plan_hash
        if self._is_again:
            plan = service.plan(table, job.parameters)
            if plan.is_empty:
                self._report(ReportState.SUCCEEDED, "nothing is left to do")
                return
            expected = None if _is_continued(table, plan) else expected
        with self._staying_alive():
            outcome = self._outcome(service, table, expected)
        if outcome is not None:
            self._report(
                ReportState.SUCCEEDED,
                outcome.summary,
                instant=outcome.instant,
                outcome={"figures": dict(outcome.figures)},
            )

    def _outcome(
        self, service: Service, table: Table, expected: str | None
    ) -> ServiceOutcome | None:
        """None while another process is at this very job; whoever is will report."""
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
                "sluice.operation.id": self._job.operation_id,
                "sluice.writer.name": f"{self._job.service} by {self._job.by}",
            }
        )

    def _on_progress(self, done: int, total: int) -> None:
        self._report(ReportState.PROGRESS, self._job.service, Progress(done, total, "items"))

    @contextmanager
    def _staying_alive(self) -> Iterator[None]:
        """One large file group may take minutes, and a service reports after each only."""
        is_over = threading.Event()

        def say_so() -> None:
            while not is_over.wait(ALIVE_EVERY_S):
                self._report(ReportState.RUNNING, f"{self._job.service} is at work")

        thread = threading.Thread(target=say_so, name="alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

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


def _is_continued(table: Table, plan: ServicePlan) -> bool:
    """The first run made its plan durable: the plan has an instant now, so another hash."""
    return any(one.requested_at == plan.instant for one in table.timeline().pending())
