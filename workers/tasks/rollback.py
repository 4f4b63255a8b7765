"""Carry out a rollback that a person confirmed, with its progress."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from celery import shared_task

from workers.config import write_options
from workers.jobs import RollbackJob
from workers.ports import system_ports
from workers.recovery import rollback as recovery
from workers.reporting import OperationReport, Progress, ReportState
from workers.storage.roots import storage_under_root
from workers.table.table import open_
from workers.tasks.reports import reporting


@shared_task(name=RollbackJob.TASK, acks_late=True)
def rollback(message: dict[str, Any]) -> None:
    job = RollbackJob.from_message(message)
    with reporting(job.operation_id, job.report_url) as reporter:

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
        table = open_(storage_under_root(job.table, os.environ), system_ports())
        request = recovery.RollbackRequest(
            job.instant,
            by=job.by,
            reason=job.reason,
            expected_plan_hash=job.plan_hash or None,
            is_only_pending=not job.plan_hash,
            is_forced=True,  # A person has read the plan's warnings and confirmed.
        )
        options = write_options({"sluice.operation.id": job.operation_id})
        ended = recovery.rollback(table, request, options, on_progress=on_progress)
        if ended.is_committed:
            report(ReportState.FAILED, f"{job.instant} was committed meanwhile", **asdict(ended))
        else:
            report(ReportState.SUCCEEDED, f"rolled back {job.instant}", **asdict(ended))
