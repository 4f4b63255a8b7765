"""Start the driver program of a write, detached, and say which process it is."""

from __future__ import annotations

import os
from typing import Any

from celery import shared_task

from workers.jobs import WriteJob
from workers.reporting import OperationReport, ReportState
from workers.spark.process import launch
from workers.tasks.reports import reporting


@shared_task(name=WriteJob.TASK, acks_late=True)
def launch_write(message: dict[str, Any]) -> None:
    job = WriteJob.from_message(message)
    with reporting(job.operation_id, job.report_url) as reporter:
        pid = launch(job, os.environ)
        if pid is not None:
            report = OperationReport(
                operation_id=job.operation_id,
                state=ReportState.RUNNING,
                message="driver launched",
                pid=pid,
            )
            reporter.send(report)
