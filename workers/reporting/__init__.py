"""Reports of workers to the control plane: hints only, because storage is authoritative."""

from __future__ import annotations

from workers.reporting.http import HttpReporter, build_reporter
from workers.reporting.report import (
    OperationReport,
    Progress,
    RecordingReporter,
    Reporter,
    ReportState,
    SilentReporter,
    StageProgress,
)

__all__ = [
    "HttpReporter",
    "OperationReport",
    "Progress",
    "RecordingReporter",
    "ReportState",
    "Reporter",
    "SilentReporter",
    "StageProgress",
    "build_reporter",
]
