"""Start the driver program of a write or a sink, detached, and report its process.

A driver lives longer than any task. Its process shows whether it runs. The state of a sink is
stored next to the table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from celery import shared_task

from workers.clock import SystemClock
from workers.jobs import DriverJob, SinkJob, WriteJob
from workers.options.sink_keys import SINK_OPTIONS
from workers.reporting import OperationReport, ReportState
from workers.sink.bounded_read import parse_bounded_read
from workers.sink.config import sink_config
from workers.sink.kafka.client_config import connection_settings
from workers.spark.process import launch, was_launched
from workers.tasks.authorization import request_job_authorization
from workers.tasks.reports import open_reporter
from workers.tasks.signed_task import SignedTask


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


@shared_task(base=SignedTask, name=SinkJob.TASK, acks_late=True)
def launch_sink(message: dict[str, Any]) -> None:
    """Run a SinkJob; see `launch_driver`."""
    launch_driver(SinkJob.from_message(message), os.environ)


@shared_task(base=SignedTask, name=WriteJob.TASK, acks_late=True)
def launch_write(message: dict[str, Any]) -> None:
    """Run a WriteJob; see `launch_driver`."""
    launch_driver(WriteJob.from_message(message), os.environ)
