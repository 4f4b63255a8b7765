"""What workers tell the control plane: hints, never waited for, since storage is the proof."""

from __future__ import annotations

from workers.reporting.http import HttpReporter, reporter_for
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
    "reporter_for",
]
