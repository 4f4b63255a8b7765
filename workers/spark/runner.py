"""`python -m workers.spark.runner <job.json>`: the driver program of one write, sink or service.

A process of its own, leader of its own group. A write puts down its source round by round, each
round one commit; a sink goes on until it is stopped. Both say how they ended: to the control plane
as a report, to the run directory as `ending.json`, and to the parent as exit code. SIGTERM ends a
write after the round, a sink after the transaction at hand.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from workers.errors import InvalidInput, LakehouseError
from workers.jobs import ServiceJob, SinkJob
from workers.log_lines import REQUEST_VARIABLE, bind, configure
from workers.ports import system_ports
from workers.reporting import OperationReport, Reporter, ReportState, build_reporter
from workers.reporting.bounded_log import bound_log
from workers.reporting.log_reporter import build_log_reporter
from workers.reporting.task_log import LoggedReporter, log_masker
from workers.spark.driver import Driver, Ending
from workers.spark.process import (
    DRIVER_FILE,
    ENDING_FILE,
    LOCK_FILE,
    LOCK_VARIABLE,
    LOG_FILE,
    REMOTE_VARIABLE,
    is_only,
)
from workers.spark.service_driver import ServiceDriver
from workers.spark.sink_driver import SinkDriver
from workers.spark.submit import Job, parse_job
from workers.traces import PARENT_VARIABLE, configure_traces, span

_REPORT_WAIT_S = 15.0
_LOG_WAIT_S = 5.0
_EXIT_CODES: Final[Mapping[ReportState, int]] = {
    ReportState.SUCCEEDED: 0,
    ReportState.FAILED: 1,
    ReportState.CONFLICTED: 3,
    ReportState.ROLLED_BACK: 4,
    ReportState.UNKNOWN: 5,
    ReportState.CANCELLED: 6,
    ReportState.FENCED: 7,
}
EXIT_INVALID: Final = 2
_PARENT: Final = os.environ.pop(PARENT_VARIABLE, "")  # None of what this process starts.
_log = logging.getLogger("workers.spark.runner")


def main(arguments: list[str]) -> int:
    """Run the driver of the job in the file that is the only argument, to its end; the exit code.

    0 also where another driver has this operation; 2 for a job that is wrong or not readable, and
    `_EXIT_CODES` for what came of it.
    """
    configure(os.environ)
    configure_traces(os.environ, "sluice-driver")
    faulthandler.enable()
    if len(arguments) != 1:
        _log.error("expected one argument: python -m workers.spark.runner <job.json>")
        return EXIT_INVALID
    try:
        job = parse_job(json.loads(Path(arguments[0]).read_bytes()))
    except (InvalidInput, OSError, ValueError) as error:
        _log.error("job not found: %s", error)
        return EXIT_INVALID
    bind(request_id=os.environ.get(REQUEST_VARIABLE, ""), operation_id=job.operation_id)
    if job.run_dir is None:
        _log.error("invalid job: run_dir is missing")
        return EXIT_INVALID
    run_dir = Path(job.run_dir)
    with _only_driver(run_dir) as is_only:
        if not is_only:
            _log.info("another driver runs this operation: %s", job.operation_id)
            return 0
        return _run(job, run_dir)


def _run(job: Job, run_dir: Path) -> int:
    (run_dir / DRIVER_FILE).write_text(json.dumps({"pid": os.getpid()}))
    masker = log_masker(job, os.environ)
    log_reporter = build_log_reporter(
        run_dir / LOG_FILE, job.report_url, job.operation_id, os.environ, masker
    )
    sender = build_reporter(job.report_url, job.operation_id, os.environ)
    reporter = LoggedReporter(sender, _log, masker)
    reporter.send(
        OperationReport(
            operation_id=job.operation_id,
            state=ReportState.RUNNING,
            message="driver started",
            pid=os.getpid(),
        )
    )
    with (
        bound_log(run_dir / LOG_FILE, system_ports().scheduler),
        span("driver", {"sluice.operation": job.operation_id}, parent=_PARENT) as current,
    ):
        ending = _ending(job, reporter)
        current.note({"sluice.state": ending.state.value, "sluice.instant": ending.instant})
    ending = replace(ending, message=masker.mask(ending.message))
    _publish(run_dir / ENDING_FILE, ending)
    reporter.send(ending.as_report(job.operation_id))
    reporter.close(wait_s=_REPORT_WAIT_S)
    log_reporter.close(wait_s=_LOG_WAIT_S)
    return EXIT_INVALID if ending.is_refusal else _EXIT_CODES[ending.state]


def _ending(job: Job, reporter: Reporter) -> Ending:
    """Whatever happens, there is an ending to report."""
    try:
        driver = _driver(job, reporter)
        signal.signal(signal.SIGTERM, lambda number, frame: driver.ask_to_stop())
        signal.signal(signal.SIGINT, lambda number, frame: driver.ask_to_stop())
        return driver.run()
    except LakehouseError as error:
        _log.error("failed: %s", error)
        is_refusal = isinstance(error, InvalidInput)
        return Ending(ReportState.FAILED, f"{error.code}: {error}", is_refusal=is_refusal)
    except Exception as error:  # noqa: BLE001 -- the last place that can say why
        _log.error("failed: %s", traceback.format_exc())
        first_line = str(error).splitlines()[:1]
        return Ending(ReportState.FAILED, f"{type(error).__name__}: {' '.join(first_line)}")


class _Drives(Protocol):
    def run(self) -> Ending: ...
    def ask_to_stop(self) -> None: ...


def _driver(job: Job, reporter: Reporter) -> _Drives:
    remote = os.environ.get(REMOTE_VARIABLE, "")
    if isinstance(job, ServiceJob):
        return ServiceDriver(
            job=job, reporter=reporter, ports=system_ports(), environment=os.environ
        )
    if isinstance(job, SinkJob):
        return SinkDriver(
            job=job,
            reporter=reporter,
            ports=system_ports(),
            remote=remote,
            environment=os.environ,
        )
    return Driver(
        job=job,
        reporter=reporter,
        ports=system_ports(),
        remote=remote,
        environment=os.environ,
    )


def _publish(path: Path, ending: Ending) -> None:
    """All or nothing: others take the file's existence for the end."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(json.dumps(ending.to_json()))
    fresh.replace(path)


@contextmanager
def _only_driver(run_dir: Path) -> Iterator[bool]:
    """Held while this process lives: a job that is delivered twice has one driver."""
    inherited = os.environ.pop(LOCK_VARIABLE, "")
    if inherited:
        os.set_inheritable(int(inherited), False)  # What a driver starts may outlive it.
        yield True
        return
    with (run_dir / LOCK_FILE).open("a") as lock:
        yield is_only(lock)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
