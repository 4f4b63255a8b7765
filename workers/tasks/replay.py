"""Send dead letters of a sink to their topic again, at a user's request.

A repeated job finds the outcome of its first run before it sends anything.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from celery import shared_task

from workers.jobs import ReplayJob
from workers.ports import system_ports
from workers.reporting import OperationReport, Progress, Reporter, ReportState
from workers.reporting.run_lock import hold_run_lock
from workers.sink.config import SinkConfig, sink_config
from workers.sink.dead_letter_selection import (
    SelectedDeadLetters,
    parse_selection,
    select_dead_letters,
)
from workers.sink.dead_letters import list_dead_letter_files
from workers.sink.kafka.replay import ReplayResult
from workers.sink.kafka.replay import replay_letters as replay
from workers.sink.replays import DeadLetterId
from workers.sink.sink_commits import ID_KEY
from workers.storage.roots import storage_under_root
from workers.table.table import Table, open_
from workers.tasks.authorization import request_job_authorization
from workers.tasks.reports import keep_alive, open_reporter
from workers.tasks.signed_task import SignedTask


@shared_task(base=SignedTask, name=ReplayJob.TASK, acks_late=True)
def replay_letters(message: dict[str, Any]) -> None:
    """Run a ReplayJob. Report its progress, then the number of dead letters that were sent."""
    job = ReplayJob.from_message(message)
    ports = system_ports()
    with (
        hold_run_lock(job.run_dir, ports.clock) as is_mine,
        open_reporter(job) as reporter,
    ):
        connection_variables = request_job_authorization(job, ports.clock) if is_mine else None
        if connection_variables is not None:
            table = open_(storage_under_root(job.table, os.environ), ports)
            storage_under_root(job.directory, os.environ)
            carry_out_replay(job, table, reporter, {**os.environ, **connection_variables})


def carry_out_replay(
    job: ReplayJob, table: Table, reporter: Reporter, environment: Mapping[str, str]
) -> None:
    """Carry out the job in this process, which must hold its lock. The caller reports failures.
    `environment` has the variables for the connection to the broker.

    Raises LakehouseError.
    """
    config = sink_config(job.sink_options)

    def say_alive() -> None:
        _report(job, reporter, ReportState.RUNNING, f"sends letters to {config.topic}")

    _report(job, reporter, ReportState.RUNNING, "reads the letters")
    with keep_alive(say_alive):
        done = _replay(job, table, config, environment)
    _report(
        job,
        reporter,
        ReportState.SUCCEEDED,
        format_result(done, config.topic),
        Progress(done.sent + done.already, done.sent + done.already + done.lost, "letters"),
    )


def _replay(
    job: ReplayJob, table: Table, config: SinkConfig, environment: Mapping[str, str]
) -> ReplayResult:
    names = list_dead_letter_files(
        table, sink_key=ID_KEY, sink_id=config.sink_id, instant=job.instant
    )
    choice = parse_selection(places=job.letters, cause=job.cause)

    def choose(sent: Collection[DeadLetterId]) -> SelectedDeadLetters:
        return select_dead_letters(job.directory, names, choice, sent)

    return replay(table, config, environment, choose, token=job.operation_id, by=job.by)


def format_result(done: ReplayResult, topic: str) -> str:
    """Format how many dead letters were sent to the topic, and how many were not and why."""
    parts = [f"{done.sent} sent to {topic} again"]
    if done.already:
        parts.append(f"{done.already} had been sent before")
    if done.lost:
        parts.append(f"{done.lost} not sent, because the topic has lost their records")
    return ", ".join(parts)


def _report(
    job: ReplayJob,
    reporter: Reporter,
    state: ReportState,
    message: str,
    progress: Progress | None = None,
) -> None:
    reporter.send(
        OperationReport(
            operation_id=job.operation_id, state=state, message=message, progress=progress
        )
    )
