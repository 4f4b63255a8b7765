"""One report about one operation, and who takes it. Nothing here touches the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Protocol


class ReportState(StrEnum):
    """How an operation stands, by the word that is sent."""

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
        """Nothing comes after it: such a report is sent several times when it fails."""
        return self not in (ReportState.RUNNING, ReportState.PROGRESS)


@dataclass(frozen=True, slots=True)
class Progress:
    """So many of so many, of what the unit names."""

    done: int
    total: int
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """How one stage of a Spark job stands, as Spark itself says it."""

    id: int
    name: str
    """What its job is for; empty where nobody has named it."""
    state: str
    """running; done: Spark said so; ended: its job is over, and Spark had not said so before."""
    tasks: int
    done: int
    running: int | None = None
    """None where Spark does not say of which stage the tasks are."""
    failed: int | None = None
    """None where Spark does not say: a Connect server never does."""
    bytes_read: int = 0
    elapsed_ms: int = 0
    """Since the driver first heard of it."""

    def to_message(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationReport:
    """What a worker says of its operation at one moment."""

    operation_id: str
    state: ReportState
    message: str = ""
    progress: Progress | None = None
    instant: str | None = None
    pid: int | None = None
    outcome: Mapping[str, Any] | None = None
    """JSON values only."""
    settled: Mapping[str, str] | None = None
    """Parameters of its source that are settled now; a writer in its place is given them."""
    stages: tuple[StageProgress, ...] = ()
    """The newest of them, oldest first; none says nothing of any."""

    def after(self, older: OperationReport) -> OperationReport:
        """This report, with what it does not say and one before it did: what was settled and which
        instant it is are said once.
        """
        silent = [part.name for part in fields(self) if not getattr(self, part.name)]
        return replace(self, **{name: getattr(older, name) for name in silent})

    def to_message(self) -> dict[str, Any]:
        """The JSON object that is sent; what is not known is left out."""
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
    """Takes reports of one worker. Neither method raises or holds the job up for long."""

    def send(self, report: OperationReport) -> None:
        """Take the report and return at once; it may never arrive."""

    def close(self, *, wait_s: float = 5.0) -> None:
        """Try for at most `wait_s` to deliver what is still queued."""


@dataclass(slots=True)
class RecordingReporter:
    """Keeps what it was told, for tests and for embedded use."""

    reports: list[OperationReport] = field(default_factory=list)

    def send(self, report: OperationReport) -> None:
        """Kept in `reports`, in order."""
        self.reports.append(report)

    def close(self, *, wait_s: float = 5.0) -> None:
        """Nothing waits."""
        return


class SilentReporter:
    """For jobs that nobody watches."""

    def send(self, report: OperationReport) -> None:
        """Forgotten."""
        return

    def close(self, *, wait_s: float = 5.0) -> None:
        """Nothing waits."""
        return
