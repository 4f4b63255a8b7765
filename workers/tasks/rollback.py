"""Carry out a rollback that a user confirmed, and report its progress.

A repeated job continues with its own decision, or finds the rollback completed.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from celery import shared_task

from workers.jobs import RollbackJob
from workers.options.write_options import SHORT_LIVED, write_options
from workers.ports import system_ports
from workers.recovery import rollback as recovery
from workers.reporting import OperationReport, Progress, Reporter, ReportState
from workers.reporting.run_lock import hold_run_lock
from workers.storage.roots import storage_under_root
from workers.table.table import Table, open_
from workers.tasks.authorization import is_authorized_to_start
from workers.tasks.reports import keep_alive, open_reporter
from workers.tasks.signed_task import SignedTask


@shared_task(base=SignedTask, name=RollbackJob.TASK, acks_late=True)
def rollback(message: dict[str, Any]) -> None:
    """Run a RollbackJob. Report the number of deleted files, then the outcome."""
    job = RollbackJob.from_message(message)
    ports = system_ports()
    with (
        hold_run_lock(job.run_dir, ports.clock) as is_mine,
        open_reporter(job) as reporter,
    ):
        if is_mine and is_authorized_to_start(job, ports.clock):
            table = open_(storage_under_root(job.table, os.environ), ports)
            carry_out_rollback(job, table, reporter)


def carry_out_rollback(job: RollbackJob, table: Table, reporter: Reporter) -> None:
    """Carry out the job in this process, which must hold its lock. The caller reports failures.

    Raises LakehouseError.
    """

    def report(
        state: ReportState, message: str, progress: Progress | None = None, **outcome: Any
    ) -> None:
        reporter.send(
            OperationReport(
                operation_id=job.operation_id,
                state=state,
                message=message,
                progress=progress,
                instant=job.instant,
                outcome=outcome or None,
            )
        )

    def on_progress(done: int, total: int) -> None:
        report(ReportState.PROGRESS, "deleting files", Progress(done, total, "files"))

    report(ReportState.RUNNING, f"rolling back {job.instant}")
    request = recovery.RollbackRequest(
        job.instant,
        by=job.by,
        reason=job.reason,
        expected_plan_hash=job.plan_hash or None,
        is_only_pending=not job.plan_hash,
        is_forced=True,  # A user has read the plan's warnings and confirmed.
    )
    options = write_options({**SHORT_LIVED, "sluice.operation.id": job.operation_id})
    with keep_alive(lambda: report(ReportState.RUNNING, f"rolling back {job.instant}")):
        ended = recovery.rollback(table, request, options, on_progress=on_progress)
    if ended.is_committed:
        report(ReportState.FAILED, f"{job.instant} was committed meanwhile", **asdict(ended))
    else:
        sentences = [f"rolled back {job.instant}", *ended.warnings]
        report(ReportState.SUCCEEDED, "; ".join(sentences), **asdict(ended))
