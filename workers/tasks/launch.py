"""Launch of a driver program, with a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from workers.clock import SystemClock
from workers.jobs import DriverJob, SinkJob
from workers.options.sink_keys import SINK_OPTIONS
from workers.reporting import OperationReport, ReportState
from workers.sink.bounded_read import parse_bounded_read
from workers.sink.config import sink_config
from workers.sink.kafka.client_config import connection_settings
from workers.spark.process import launch, was_launched
from workers.tasks.authorization import request_job_authorization
from workers.tasks.reports import open_reporter


def check_broker(job: DriverJob, environment: Mapping[str, str]) -> None:
    """Check that the node's settings bind the job's password to its broker. The message may be
    older than the settings, or forged. Raises InvalidInput.
    """
    if isinstance(job, SinkJob):
        own = {key: text for key, text in job.sink_options.items() if key in SINK_OPTIONS}
        connection_settings(sink_config(own), environment)
    elif job.source.get("kind") == "kafka":
        connection_settings(parse_bounded_read(job.source).config, environment)


def launch_driver(job: DriverJob, environment: Mapping[str, str]) -> None:
    """Start the job's driver unless it runs, and report its pid. Nothing is reported if it has
    ended or is no longer authorized. A job whose broker the node does not allow is not started, and
    its report has the error.
    """
    with open_reporter(job, name="launch") as reporter:
        if not was_launched(Path(job.run_dir)):
            connection_variables = request_job_authorization(job, SystemClock())
            if connection_variables is None:
                return
            environment = {**environment, **connection_variables}
            check_broker(job, environment)
        pid = launch(job, environment)
        if pid is not None:
            report = OperationReport(
                operation_id=job.operation_id,
                state=ReportState.RUNNING,
                message="driver launched",
                pid=pid,
            )
            reporter.send(report)
