"""Log of a task: a file in the run directory with all records of the process.

The file is also reported to the control plane. Workers of the queue `engine` are processes with one
task at a time, so the records of all threads belong to that operation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from workers.clock import Clock, SystemClock
from workers.given_connection import find_connection_secrets
from workers.log_lines import LineFormatter
from workers.masking import VALUE_CHARS_MIN, Masker, secret_values
from workers.reporting.log_reporter import build_log_reporter
from workers.reporting.report import OperationReport, Reporter, ReportState

_CLOSE_WAIT_S = 5.0
_PROGRESS_EVERY_S = 10.0
_log = logging.getLogger(__name__)


class LoggedJob(Protocol):
    """Fields of a job that its log needs."""

    @property
    def operation_id(self) -> str:
        """Id of the operation."""

    @property
    def run_dir(self) -> str | None:
        """Run directory; None for no log."""

    @property
    def report_url(self) -> str | None:
        """URL for reports; None for no reports."""


def log_masker(job: object, environment: Mapping[str, str]) -> Masker:
    """Build the masker for secrets in the environment and in the options of the job."""
    return Masker(_collect_secrets(job, environment))


def _collect_secrets(job: object, environment: Mapping[str, str]) -> set[str]:
    options = (getattr(job, name, {}) for name in ("options", "sink_options", "spark_conf"))
    values = secret_values(environment, *options) | find_connection_secrets(environment)
    return {text for text in values if len(text) >= VALUE_CHARS_MIN}


@contextmanager
def capture_task_log(job: LoggedJob, name: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Write all log records in the block to `<name>-<attempt>.log` in the run directory.

    If the file cannot be opened, the block runs without it.
    """
    attempt = int(getattr(job, "attempt", 0))
    if job.run_dir is None:
        yield
        return
    masker = log_masker(job, environment)
    path = Path(job.run_dir) / f"{name}-{attempt}.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8", errors="replace")
    except OSError as error:
        _log.warning("no log is kept: operation=%s error=%s", job.operation_id, error)
        yield
        return
    handler.setFormatter(LineFormatter(masker=masker))
    reporter = build_log_reporter(
        path, job.report_url, job.operation_id, environment, masker, attempt=attempt
    )
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        with _set_info_level(logging.getLogger("workers")):
            yield
    finally:
        reporter.close(wait_s=_CLOSE_WAIT_S)
        root.removeHandler(handler)
        handler.close()


@contextmanager
def _set_info_level(logger: logging.Logger) -> Iterator[None]:
    """Log the engine at INFO in the block, even if the process logs only warnings."""
    level = logger.level
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)


class LoggedReporter:
    """Reporter that masks secrets, logs new reports, and forwards all to another reporter."""

    def __init__(
        self,
        reporter: Reporter,
        logger: logging.Logger,
        masker: Masker,
        clock: Clock | None = None,
    ) -> None:
        self._reporter = reporter
        self._logger = logger
        self._masker = masker
        self._clock = clock or SystemClock()
        self._progress_from_s = 0.0
        self._last = (ReportState.RUNNING, "")

    def send(self, report: OperationReport) -> None:
        """Send the report. Repeated reports are logged once, progress every 10 s."""
        report = replace(report, message=self._masker.mask(report.message))
        if (report.state, report.message) != self._last and self._is_due(report):
            self._last = (report.state, report.message)
            level = logging.ERROR if report.state is ReportState.FAILED else logging.INFO
            self._logger.log(level, "%s: %s", report.state.value, report.message)
        self._reporter.send(report)

    def _is_due(self, report: OperationReport) -> bool:
        if report.state is not ReportState.PROGRESS:
            return True
        now_s = self._clock.monotonic_s()
        if now_s < self._progress_from_s:
            return False
        self._progress_from_s = now_s + _PROGRESS_EVERY_S
        return True

    def close(self, *, wait_s: float = 5.0) -> None:
        """Close the other reporter, as in `Reporter`."""
        self._reporter.close(wait_s=wait_s)
