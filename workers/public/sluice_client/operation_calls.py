"""Requests for operations, by their descriptions. Made by `manage.py client_rows`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .base_calls import BaseCalls
from .rows import (
    GrantRow,
    MaskedColumns,
    OperationDetail,
    OverwritePlan,
    PlanView,
    RowGrantRow,
    ScheduleRow,
    ServicePlanView,
    ServiceSettingRow,
    SinkReset,
    SinkResetPlan,
    SinkSummary,
    StreamsBoard,
    TableRow,
    Unregistered,
)


class OperationCalls(BaseCalls):
    """A part of `Client`."""

    def write(
        self,
        slug: str,
        source: Mapping[str, Any],
        *,
        partitions: Sequence[str] = (),
        operation: str = "upsert",
        stream: str = "",
        options: Mapping[str, str] | None = None,
        spark_conf: Mapping[str, str] | None = None,
        reason: str = "",
        plan: OverwritePlan | ServicePlanView | None = None,
        key: str | None = None,
    ) -> OperationDetail:
        """Write the rows of one source into the table, such as `{"kind": "csv", "path":
        "/d/a.csv"}`. What deletes data needs a plan and a reason."""
        return self._ask(
            OperationDetail, "POST", "tables/{slug}/operations/", locals(), "plan_hash table_name"
        )

    def plan_overwrite(
        self, slug: str, source: Mapping[str, Any], *, operation: str = "insert_overwrite_table"
    ) -> OverwritePlan:
        """Plan an overwrite from a statement, a topic or JSON lines. Nothing is changed."""
        return self._ask(OverwritePlan, "POST", "tables/{slug}/operations/plan/", locals())

    def plan_rollback(self, slug: str, instant: str) -> PlanView:
        """Plan the rollback of an instant: what it would delete. Nothing is changed."""
        return self._ask(PlanView, "POST", "tables/{slug}/rollbacks/plan/", locals())

    def roll_back(
        self, slug: str, plan: PlanView, *, reason: str, key: str | None = None
    ) -> OperationDetail:
        """Roll back an instant exactly as planned. Rejected as `plan_changed` if the table has
        changed."""
        return self._ask(
            OperationDetail,
            "POST",
            "tables/{slug}/rollbacks/",
            locals(),
            "instant plan_hash table_name",
        )

    def plan_service(
        self, slug: str, service: str, parameters: Mapping[str, str] | None = None
    ) -> ServicePlanView:
        """Plan a run of a table service. Nothing is changed."""
        return self._ask(
            ServicePlanView, "POST", "tables/{slug}/services/{service}/plan/", locals()
        )

    def run_service(
        self,
        slug: str,
        service: str,
        parameters: Mapping[str, str] | None = None,
        *,
        reason: str = "",
        plan: ServicePlanView | None = None,
        key: str | None = None,
    ) -> OperationDetail:
        """Run a table service. Services that delete data need their plan and a reason."""
        return self._ask(
            OperationDetail,
            "POST",
            "tables/{slug}/services/{service}/",
            locals(),
            "plan_hash table_name",
        )

    def start_sink(
        self,
        slug: str,
        sink_options: Mapping[str, str],
        *,
        application: str = "own",
        spark_conf: Mapping[str, str] | None = None,
        relaunches_max: int = 0,
        reason: str = "",
        key: str | None = None,
    ) -> OperationDetail:
        """Run a sink into the table until it is stopped, with the options of docs/options.md."""
        return self._ask(OperationDetail, "POST", "tables/{slug}/sinks/", locals())

    def stop_sink(
        self, slug: str, sink_id: str, kind: str = "graceful", *, reason: str = ""
    ) -> SinkSummary:
        """Ask a sink to stop, whether or not the node runs it."""
        return self._ask(SinkSummary, "POST", "tables/{slug}/sinks/{sink_id}/stop/", locals())

    def relaunch_sink(
        self, slug: str, sink_id: str, *, reason: str = "", key: str | None = None
    ) -> OperationDetail:
        """Run the newest operation of a sink again, with the same options."""
        return self._ask(
            OperationDetail, "POST", "tables/{slug}/sinks/{sink_id}/relaunch/", locals()
        )

    def plan_sink_reset(self, slug: str, sink_id: str, to: str) -> SinkResetPlan:
        """Plan a reset: the records that the sink reads again or skips. Nothing is changed."""
        return self._ask(
            SinkResetPlan, "POST", "tables/{slug}/sinks/{sink_id}/reset/plan/", locals()
        )

    def reset_sink(
        self,
        slug: str,
        sink_id: str,
        plan: SinkResetPlan,
        *,
        reason: str,
        table_name: str,
        key: str | None = None,
    ) -> SinkReset:
        """Set the offsets of a sink as planned, in one commit without rows. A person types
        `table_name`."""
        return self._ask(
            SinkReset, "POST", "tables/{slug}/sinks/{sink_id}/reset/", locals(), "to plan_hash"
        )

    def replay_letters(
        self,
        slug: str,
        sink_id: str,
        *,
        instant: str = "",
        letters: Sequence[str] = (),
        cause: str = "",
        reason: str,
        key: str | None = None,
    ) -> OperationDetail:
        """Send dead letters to their topic again, each once: by commit, by cause or by name."""
        return self._ask(
            OperationDetail, "POST", "tables/{slug}/sinks/{sink_id}/dead-letters/replay/", locals()
        )

    def cancel(self, operation_id: str, *, reason: str = "") -> OperationDetail:
        """Ask an operation to stop. Steps that have not begun never will."""
        return self._ask(OperationDetail, "POST", "operations/{operation_id}/cancel/", locals())

    def run_again(
        self,
        operation_id: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        reason: str = "",
        plan_hash: str = "",
        table_name: str = "",
        key: str | None = None,
    ) -> OperationDetail:
        """Run an operation that has ended again, with its parameters or changed ones."""
        return self._ask(OperationDetail, "POST", "operations/{operation_id}/again/", locals())

    def stop_writer(
        self, slug: str, requested_at: str, *, reason: str, key: str | None = None
    ) -> OperationDetail:
        """Stop a writer by its pending instant, which is rolled back unless it commits first."""
        return self._ask(
            OperationDetail, "POST", "tables/{slug}/writers/{requested_at}/abort/", locals()
        )

    def register_table(
        self, location: str, slug: str, *, name: str = "", namespace: str = "default"
    ) -> TableRow:
        """Register the table at a location. The mirror reads it under its slug from then on."""
        return self._ask(TableRow, "POST", "tables/", locals())

    def create_table(
        self,
        location: str,
        slug: str,
        *,
        name: str = "",
        namespace: str = "default",
        columns: Sequence[Mapping[str, Any]],
        record_key: Sequence[str],
        partition_by: Sequence[str] = (),
        ordering: str = "",
        table_type: str = "COPY_ON_WRITE",
        groups: str = "",
        reason: str = "",
        key: str | None = None,
    ) -> TableRow:
        """Create an empty table and register it."""
        return self._ask(TableRow, "POST", "new-tables/", locals())

    def change_table(
        self,
        slug: str,
        *,
        name: str | None = None,
        new_slug: str | None = None,
        namespace: str | None = None,
        location: str | None = None,
        owner: str | None = None,
        tags: str | None = None,
        description: str | None = None,
        reason: str,
        key: str | None = None,
    ) -> TableRow:
        """Change what is registered of a table. Values that are left out stay."""
        return self._ask(TableRow, "PATCH", "tables/{slug}/", locals())

    def unregister_table(
        self, slug: str, *, reason: str, table_name: str, key: str | None = None
    ) -> Unregistered:
        """Unregister a table. Its files stay. A person types `table_name`."""
        return self._ask(Unregistered, "DELETE", "tables/{slug}/", locals())

    def mask_columns(self, slug: str, columns: Sequence[str], *, reason: str = "") -> MaskedColumns:
        """Mask these columns of a table and no others."""
        return self._ask(MaskedColumns, "PUT", "tables/{slug}/masked-columns/", locals())

    def create_schedule(
        self,
        slug: str,
        name: str,
        kind: str,
        *,
        service: str = "",
        parameters: Mapping[str, Any] | None = None,
        every_s: int | None = None,
        cron: str = "",
        time_zone: str = "UTC",
        after_schedule: str = "",
        after_operation: str = "",
        reason: str = "",
    ) -> ScheduleRow:
        """Create a schedule that runs as you. Exactly one of `every_s`, `cron`, `after_schedule`
        and `after_operation` is needed."""
        return self._ask(ScheduleRow, "POST", "tables/{slug}/schedules/", locals())

    def change_schedule(
        self,
        slug: str,
        schedule_id: str,
        name: str,
        kind: str,
        *,
        service: str = "",
        parameters: Mapping[str, Any] | None = None,
        every_s: int | None = None,
        cron: str = "",
        time_zone: str = "UTC",
        after_schedule: str = "",
        after_operation: str = "",
        reason: str = "",
    ) -> ScheduleRow:
        """Replace all settings of a schedule. It runs as you from then on."""
        return self._ask(ScheduleRow, "PUT", "tables/{slug}/schedules/{schedule_id}/", locals())

    def pause_schedule(
        self, slug: str, schedule_id: str, is_paused: bool, *, reason: str = ""
    ) -> ScheduleRow:
        """Pause a schedule or resume it. Due times of the pause are skipped."""
        return self._ask(
            ScheduleRow, "POST", "tables/{slug}/schedules/{schedule_id}/pause/", locals()
        )

    def schedule_service(
        self,
        slug: str,
        service: str,
        enabled: bool,
        *,
        every_s: int = 3600,
        trigger_commits: int = 0,
        parameters: Mapping[str, str] | None = None,
    ) -> ServiceSettingRow:
        """Set whether and when a table service runs automatically."""
        return self._ask(
            ServiceSettingRow, "PUT", "tables/{slug}/services/{service}/schedule/", locals()
        )

    def declare_stream(
        self,
        slug: str,
        name: str,
        *,
        ordering: Sequence[str],
        columns: Sequence[str],
        types: Mapping[str, str],
        null_mode: str = "",
        on_late: str = "",
        delete: str = "",
        granularity: str = "",
        reason: str,
        table_name: str,
    ) -> StreamsBoard:
        """Declare a stream: an entry of `hoodie.multistream.groups` with the types of its columns,
        all of which are new to the table. A person types `table_name`."""
        return self._ask(StreamsBoard, "POST", "tables/{slug}/streams/", locals())

    def grant(
        self,
        role: str,
        *,
        user: str = "",
        group: str = "",
        namespace: str = "",
        table: str = "",
        reason: str = "",
    ) -> GrantRow:
        """Grant a role to a user or a group, in a namespace or on a table. It replaces the role
        granted there before."""
        return self._ask(GrantRow, "POST", "grants/", locals())

    def grant_rows(
        self,
        right: str,
        *,
        user: str = "",
        group: str = "",
        namespace: str = "",
        table: str = "",
        everywhere: bool = False,
        reason: str = "",
    ) -> RowGrantRow:
        """Grant row access to a user or a group, in a namespace, on a table or everywhere. It
        replaces the access granted there before."""
        return self._ask(RowGrantRow, "POST", "row-grants/", locals())
