"""A write of a few rows by Arrow, as a Celery task: what a driver does for Spark, in the worker.

A job that comes again first ends what its dead predecessor left pending, then looks whether that
one had committed; only then it writes.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self, assert_never

import pyarrow as pa
from celery import shared_task

from tests.controlplane.kills.storage_facts import commits_of
from workers.concurrency.outcome import Committed, Conflicted, RolledBack, Unknown
from workers.jobs import CancelJob
from workers.lakehouse import LakehouseTable
from workers.options.write_options import SHORT_LIVED
from workers.ports import system_ports
from workers.reporting import OperationReport, Reporter, ReportState
from workers.reporting.run_lock import hold_run_lock
from workers.storage.roots import storage_under_root
from workers.table.table import Table, open_
from workers.tasks.authorization import request_authorization
from workers.tasks.cancel import roll_back_pending
from workers.tasks.reports import open_reporter
from workers.tasks.signed_task import SignedTask

ROWS = 5
COLUMNS: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "op": pa.string()}
SCHEMA = pa.schema(COLUMNS)
_COMMITS_LOOKED_AT = 200
RETRIES = 40
"""Lost conflicts are not what is tried here: a write that nobody kills commits."""


def keys_of(name: str) -> list[str]:
    """The keys that the write of this name brings, and no other."""
    return [f"{name}-{number}" for number in range(ROWS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowJob:
    TASK: ClassVar[str] = "tests.arrow_write"

    operation_id: str
    table: str
    name: str
    """Of what it writes: `keys_of` it."""
    mode: str
    run_dir: str
    report_url: str | None
    attempt: int = 0
    asks_leave: bool = False

    def to_message(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_message(cls, message: object) -> Self:
        assert isinstance(message, dict), message
        return cls(**message)


@shared_task(base=SignedTask, name=ArrowJob.TASK, acks_late=True)
def write_with_arrow(message: dict[str, Any]) -> None:
    job = ArrowJob.from_message(message)
    ports = system_ports()
    with hold_run_lock(job.run_dir, ports.clock) as is_mine, open_reporter(job) as reporter:
        assert job.report_url is not None
        address = job.report_url
        if (
            is_mine
            and request_authorization(job.operation_id, address, os.environ, ports.clock)
            is not None
        ):
            _carry_out(job, open_(storage_under_root(job.table, os.environ), ports), reporter)


def _carry_out(job: ArrowJob, table: Table, reporter: Reporter) -> None:
    _report(job, reporter, ReportState.RUNNING, "writes")
    roll_back_pending(_left_by_predecessor(job), table.ports)
    if earlier := commits_of(table, looked_at_max=_COMMITS_LOOKED_AT).get(job.operation_id):
        _report(job, reporter, ReportState.SUCCEEDED, "was committed before", earlier[-1])
        return
    keys = keys_of(job.name)
    columns = {"id": keys, "ts": [1] * len(keys), "op": [job.name] * len(keys)}
    options = {
        **SHORT_LIVED,
        "sluice.operation.id": job.operation_id,
        "sluice.writer.name": "arrow",
        "hoodie.write.concurrency.mode": job.mode,
        "hoodie.write.num.retries.on.conflict.failures": str(RETRIES),
    }
    outcome = LakehouseTable(table).write(pa.table(columns, schema=SCHEMA), options=options)
    match outcome:
        case Committed(instant=instant):
            _report(job, reporter, ReportState.SUCCEEDED, "committed", instant)
        case Conflicted():
            _report(job, reporter, ReportState.CONFLICTED, outcome.conflict.message)
        case RolledBack():
            _report(job, reporter, ReportState.ROLLED_BACK, outcome.reason)
        case Unknown():
            _report(job, reporter, ReportState.UNKNOWN, outcome.reason)
        case _:
            assert_never(outcome)


def _left_by_predecessor(job: ArrowJob) -> CancelJob:
    """Whoever was at it before has ended: the lock of the run directory is ours."""
    return CancelJob(
        operation_id=job.operation_id,
        table=job.table,
        session_id=str(uuid.uuid4()),
        run_dir=job.run_dir,
        reason="its worker died",
        by="arrow",
    )


def _report(
    job: ArrowJob,
    reporter: Reporter,
    state: ReportState,
    message: str,
    instant: str | None = None,
) -> None:
    report = OperationReport(
        operation_id=job.operation_id, state=state, message=message, instant=instant
    )
    reporter.send(report)
