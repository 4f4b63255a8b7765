"""Reports about operations, and the protocol of reporters. Nothing here uses the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Protocol


class ReportState(StrEnum):
    """State of an operation, with the text that is sent."""

    RUNNING = "running"
    PROGRESS = "progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CONFLICTED = "conflicted"
    ROLLED_BACK = "rolled_back"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    FENCED = "fenced"
    """A sink that another launch has taken over."""

    @property
    def is_final(self) -> bool:
        """True if no other state follows. Sending such a report is retried several times."""
        return self not in (ReportState.RUNNING, ReportState.PROGRESS)


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress as done of total, in the unit."""

    done: int
    total: int
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """Progress of one stage of a Spark job, as Spark reports it."""

    id: int
    name: str
    """Description of its job; empty if it has none."""
    state: str
    """running; done: Spark reported the end; ended: its job is over without such a report."""
    tasks: int
    done: int
    running: int | None = None
    """None if Spark does not report the stage of the tasks."""
    failed: int | None = None
    """None if Spark does not report it, as with a Connect server."""
    bytes_read: int = 0
    elapsed_ms: int = 0
    """Time since the driver detected the stage."""

    def to_message(self) -> dict[str, Any]:
        """Return the stage as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationReport:
    """Report of a worker about its operation, at one time."""

    operation_id: str
    state: ReportState
    message: str = ""
    progress: Progress | None = None
    instant: str | None = None
    pid: int | None = None
    outcome: Mapping[str, Any] | None = None
    """JSON values only."""
    settled: Mapping[str, str] | None = None
    """Resolved parameters of its source, for a writer that replaces this one."""
    stages: tuple[StageProgress, ...] = ()
    """The newest stages, oldest first. An empty tuple means no information."""

    def merge_older(self, older: OperationReport) -> OperationReport:
        """Return this report, with missing fields from an older one. Some fields, such as the
        instant, are reported only once.
        """
        silent = [part.name for part in fields(self) if not getattr(self, part.name)]
        return replace(self, **{name: getattr(older, name) for name in silent})

    def to_message(self) -> dict[str, Any]:
        """Return the JSON object to send, without unknown fields."""
        message: dict[str, Any] = {"operation_id": self.operation_id, "state": self.state.value}
        if self.message:
            message["message"] = self.message
        if self.progress is not None:
            message["progress"] = {
                "done": self.progress.done,
                "total": self.progress.total,
                "unit": self.progress.unit,
            }
        for name in ("instant", "pid", "outcome", "settled"):
            if (value := getattr(self, name)) is not None:
                message[name] = dict(value) if isinstance(value, Mapping) else value
        if self.stages:
            message["stages"] = [stage.to_message() for stage in self.stages]
        return message


class Reporter(Protocol):
    """Receiver of one worker's reports. No method raises or blocks the job for long."""

    def send(self, report: OperationReport) -> None:
        """Take the report and return at once; it may never arrive."""

    def close(self, *, wait_s: float = 5.0) -> None:
        """Try for at most `wait_s` to deliver what is still queued."""


@dataclass(slots=True)
class RecordingReporter:
    """Reporter that keeps all reports, for tests and embedded use."""

    reports: list[OperationReport] = field(default_factory=list)

    def send(self, report: OperationReport) -> None:
        """Append the report to `reports`."""
        self.reports.append(report)

    def close(self, *, wait_s: float = 5.0) -> None:
        """Do nothing."""
        return


class SilentReporter:
    """Reporter that ignores all reports."""

    def send(self, report: OperationReport) -> None:
        """Ignore the report."""
        return

    def close(self, *, wait_s: float = 5.0) -> None:
        """Do nothing."""
        return
