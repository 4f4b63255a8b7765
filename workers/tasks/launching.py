"""The start of a driver program, as a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from workers.clock import SystemClock
from workers.jobs import DriverJob
from workers.reporting import OperationReport, ReportState
from workers.spark.process import launch, was_launched
from workers.tasks.leave import may_begin
from workers.tasks.reports import reporting


def launch_driver(job: DriverJob, environment: Mapping[str, str]) -> None:
    """Start the job's driver, or see that it runs, and report its pid; silent when it has ended,
    and where it may not begin any more.
    """
    with reporting(job, name="launch") as reporter:
        if not was_launched(Path(job.run_dir)) and not may_begin(job, SystemClock()):
            return
        pid = launch(job, environment)
        if pid is not None:
            report = OperationReport(
                operation_id=job.operation_id,
                state=ReportState.RUNNING,
                message="driver launched",
                pid=pid,
            )
            reporter.send(report)
