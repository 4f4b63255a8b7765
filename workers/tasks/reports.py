"""Reports of every task: its log, its reporter, a report of its failure, and keepalive reports of a
long task, which would be sent again without them.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from celery import current_task

from workers.errors import LakehouseError
from workers.reporting import OperationReport, Reporter, ReportState, build_reporter
from workers.reporting.task_log import LoggedJob, LoggedReporter, capture_task_log, log_masker
from workers.traces import PARENT, Span, sent_parent, span

_CLOSE_WAIT_S = 10.0
_log = logging.getLogger(__name__)
ALIVE_EVERY_S = 10.0
"""Without a report for a few intervals, the worker counts as dead and the job is sent again."""


@contextmanager
def open_reporter(job: LoggedJob, *, name: str = "worker") -> Iterator[Reporter]:
    """Open the reporter of a job. An error of the engine is reported and ends here. Any other error
    is reported, and fails the task as well.

    The log is in `<name>-<attempt>.log` in the job's run directory.
    """
    operation_id = job.operation_id
    with capture_task_log(job, name, os.environ), _open_span(job, name):
        sender = build_reporter(job.report_url, operation_id, os.environ)
        reporter = LoggedReporter(sender, _log, log_masker(job, os.environ))
        try:
            yield reporter
        except LakehouseError as error:
            _log.warning("operation failed: operation=%s error=%s", operation_id, error)
            reporter.send(_build_failure(operation_id, f"{error.code}: {error}"))
        except Exception as error:
            _log.error("operation failed: operation=%s", operation_id, exc_info=True)
            reporter.send(_build_failure(operation_id, f"{type(error).__name__}: {error}"))
            raise
        finally:
            reporter.close(wait_s=_CLOSE_WAIT_S)


def _open_span(job: LoggedJob, name: str) -> AbstractContextManager[Span]:
    """Open a span below the sender's span, whose header is signed with the message."""
    sent = current_task.request.get(PARENT) if current_task else None
    facts = {"sluice.operation": job.operation_id, "sluice.job": type(job).__name__}
    return span(f"job {name}", facts, kind="consumer", parent=sent_parent(sent))


def _build_failure(operation_id: str, message: str) -> OperationReport:
    return OperationReport(operation_id=operation_id, state=ReportState.FAILED, message=message)


@contextmanager
def keep_alive(say_so: Callable[[], None]) -> Iterator[None]:
    """Call `say_so` in a thread every `ALIVE_EVERY_S` seconds, until the block ends."""
    is_over = threading.Event()

    def repeat_report() -> None:
        while not is_over.wait(ALIVE_EVERY_S):
            say_so()

    thread = threading.Thread(target=repeat_report, name="alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
