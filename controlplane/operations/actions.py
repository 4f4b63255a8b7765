"""The door to everything that people and workers may ask of operations."""

from __future__ import annotations

from controlplane.operations.aborts import do_request_abort
from controlplane.operations.again import do_request_again, load_parameters
from controlplane.operations.cancels import do_request_cancel, is_cancellable
from controlplane.operations.declaring import do_declare_stream
from controlplane.operations.kinds.replay import do_request_replay
from controlplane.operations.kinds.rollback import (
    PlannedFileRow,
    PlanView,
    do_request_rollback,
    plan_rollback,
)
from controlplane.operations.kinds.sink import do_relaunch_sink, do_start_sink
from controlplane.operations.kinds.table_service import (
    do_request_service,
    do_schedule_service,
    plan_service,
)
from controlplane.operations.kinds.write import do_request_write
from controlplane.operations.leave import do_give_leave
from controlplane.operations.log_storing import do_append_lines
from controlplane.operations.marker_server import do_restart_marker_server
from controlplane.operations.named_connections import load_connection
from controlplane.operations.pauses import (
    do_pause_writers,
    do_resume_writers,
    find_pause,
    find_running_writers,
)
from controlplane.operations.permissions import (
    ServiceKind,
    check_row_choice,
    permission_of,
    permission_to_plan,
    service_kinds,
)
from controlplane.operations.planned_writes import do_request_planned_write
from controlplane.operations.replay_plans import ReplayPlan, plan_replay
from controlplane.operations.reports import do_record_report
from controlplane.operations.schedules import do_update_service_setting
from controlplane.operations.service_plan_views import PlanItemRow, ServicePlanView
from controlplane.operations.settling import do_reconcile
from controlplane.operations.sink_resets import do_reset_sink, plan_sink_reset
from controlplane.operations.sink_stops import do_stop_sink, open_operation
from controlplane.operations.stream_writes import do_launch_stream

__all__ = [
    "PlanItemRow",
    "PlanView",
    "PlannedFileRow",
    "ReplayPlan",
    "ServiceKind",
    "ServicePlanView",
    "check_row_choice",
    "do_append_lines",
    "do_declare_stream",
    "do_give_leave",
    "do_launch_stream",
    "do_pause_writers",
    "do_reconcile",
    "do_record_report",
    "do_relaunch_sink",
    "do_request_abort",
    "do_request_again",
    "do_request_cancel",
    "do_request_planned_write",
    "do_request_replay",
    "do_request_rollback",
    "do_request_service",
    "do_request_write",
    "do_reset_sink",
    "do_restart_marker_server",
    "do_resume_writers",
    "do_schedule_service",
    "do_start_sink",
    "do_stop_sink",
    "do_update_service_setting",
    "find_pause",
    "find_running_writers",
    "is_cancellable",
    "load_connection",
    "load_parameters",
    "open_operation",
    "permission_of",
    "permission_to_plan",
    "plan_replay",
    "plan_rollback",
    "plan_service",
    "plan_sink_reset",
    "service_kinds",
]
