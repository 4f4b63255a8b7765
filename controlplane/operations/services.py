"""The door to everything that people and workers may ask of operations."""

from __future__ import annotations

from controlplane.operations.demo import (
    kill_demo_writer,
    start_demo_conflict,
    start_demo_schema_conflict,
)
from controlplane.operations.reports import record_report
from controlplane.operations.requests import request_cancel, request_write
from controlplane.operations.rollbacks import (
    PlannedFileRow,
    PlanView,
    plan_rollback,
    request_rollback,
)
from controlplane.operations.settling import reconcile

__all__ = [
    "PlanView",
    "PlannedFileRow",
    "kill_demo_writer",
    "plan_rollback",
    "reconcile",
    "record_report",
    "request_cancel",
    "request_rollback",
    "request_write",
    "start_demo_conflict",
    "start_demo_schema_conflict",
]
