"""The door to everything that people and workers may ask of operations."""

from __future__ import annotations

from controlplane.operations.aborts import request_abort
from controlplane.operations.cancels import is_cancellable, request_cancel
from controlplane.operations.declaring import declare_stream
from controlplane.operations.demo import (
    has_demo_ended,
    kill_demo_writer,
    start_demo_conflict,
    start_demo_schema_conflict,
)
from controlplane.operations.kinds.replay import ReplayPlan, plan_replay, request_replay
from controlplane.operations.kinds.rollback import (
    PlannedFileRow,
    PlanView,
    plan_rollback,
    request_rollback,
)
from controlplane.operations.kinds.sink import relaunch_sink, start_sink
from controlplane.operations.kinds.table_service import (
    PlanItemRow,
    ServicePlanView,
    plan_service,
    request_service,
    schedule_service,
)
from controlplane.operations.kinds.write import (
    PLANNED_OPERATIONS,
    WRITE_OPERATIONS,
    request_write,
)
from controlplane.operations.permissions import (
    ServiceKind,
    permission_of,
    permission_to_plan,
    service_kinds,
)
from controlplane.operations.planned_writes import request_planned_write
from controlplane.operations.reports import record_report
from controlplane.operations.settling import reconcile
from controlplane.operations.sink_resets import plan_sink_reset, reset_sink
from controlplane.operations.sink_stops import open_operation, stop_sink

__all__ = [
    "PLANNED_OPERATIONS",
    "WRITE_OPERATIONS",
    "PlanItemRow",
    "PlanView",
    "PlannedFileRow",
    "ReplayPlan",
    "ServiceKind",
    "ServicePlanView",
    "declare_stream",
    "has_demo_ended",
    "is_cancellable",
    "kill_demo_writer",
    "open_operation",
    "permission_of",
    "permission_to_plan",
    "plan_replay",
    "plan_rollback",
    "plan_service",
    "plan_sink_reset",
    "reconcile",
    "record_report",
    "relaunch_sink",
    "request_abort",
    "request_cancel",
    "request_planned_write",
    "request_replay",
    "request_rollback",
    "request_service",
    "request_write",
    "reset_sink",
    "schedule_service",
    "service_kinds",
    "start_demo_conflict",
    "start_demo_schema_conflict",
    "start_sink",
    "stop_sink",
]
