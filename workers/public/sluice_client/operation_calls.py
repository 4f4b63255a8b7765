"""Requests for operations, by their descriptions. Made by `manage.py client_rows`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .connection import Connection, drop_empty, drop_unset, segment, table_path
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


class OperationCalls:
    """A part of `Client`."""

    _connection: Connection

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
        "/d/a.csv"}`. What takes data away needs a plan and a reason."""
        body = drop_empty(
            source=dict(source or {}),
            partitions=list(partitions),
            operation=operation,
            stream=stream,
            options=dict(options or {}),
            spark_conf=dict(spark_conf or {}),
            reason=reason,
        )
        if plan is not None:
            body["plan_hash"] = plan["plan_hash"]
            body["table_name"] = self._table_name(slug)
        return self._connection.ask(
            OperationDetail, "POST", f"{table_path(slug)}operations/", body, key
        )

    def plan_overwrite(
        self, slug: str, source: Mapping[str, Any], *, operation: str = "insert_overwrite_table"
    ) -> OverwritePlan:
        """Plan an overwrite from a statement, a topic or JSON lines. Nothing is changed."""
        body: dict[str, Any] = {"source": dict(source or {}), "operation": operation}
        return self._connection.ask(
            OverwritePlan, "POST", f"{table_path(slug)}operations/plan/", body
        )

    def plan_rollback(self, slug: str, instant: str) -> PlanView:
        """Plan the rollback of an instant: what it would delete. Nothing is changed."""
        body: dict[str, Any] = {"instant": instant}
        return self._connection.ask(PlanView, "POST", f"{table_path(slug)}rollbacks/plan/", body)

    def roll_back(
        self, slug: str, plan: PlanView, *, reason: str, key: str | None = None
    ) -> OperationDetail:
        """Roll back an instant exactly as planned. Refused as `plan_changed` once the table moved
        on."""
        body: dict[str, Any] = {
            "reason": reason,
            "instant": plan["instant"],
            "plan_hash": plan["plan_hash"],
            "table_name": self._table_name(slug),
        }
        return self._connection.ask(
            OperationDetail, "POST", f"{table_path(slug)}rollbacks/", body, key
        )

    def plan_service(
        self, slug: str, service: str, parameters: Mapping[str, str] | None = None
    ) -> ServicePlanView:
        """Plan a run of a table service. Nothing is changed."""
        body = drop_empty(parameters=dict(parameters or {}))
        return self._connection.ask(
            ServicePlanView, "POST", f"{table_path(slug)}services/{segment(service)}/plan/", body
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
        """Run a table service. One that takes data away needs its plan and a reason."""
        body = drop_empty(parameters=dict(parameters or {}), reason=reason)
        if plan is not None:
            body["plan_hash"] = plan["plan_hash"]
            body["table_name"] = self._table_name(slug)
        return self._connection.ask(
            OperationDetail, "POST", f"{table_path(slug)}services/{segment(service)}/", body, key
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
        body = drop_empty(
            application=application,
            spark_conf=dict(spark_conf or {}),
            relaunches_max=relaunches_max,
            reason=reason,
        )
        body |= {"sink_options": dict(sink_options or {})}
        return self._connection.ask(OperationDetail, "POST", f"{table_path(slug)}sinks/", body, key)

    def stop_sink(
        self, slug: str, sink_id: str, kind: str = "graceful", *, reason: str = ""
    ) -> SinkSummary:
        """Ask a sink to stop, whether or not the node runs it."""
        body = drop_empty(kind=kind, reason=reason)
        return self._connection.ask(
            SinkSummary, "POST", f"{table_path(slug)}sinks/{segment(sink_id)}/stop/", body
        )

    def relaunch_sink(
        self, slug: str, sink_id: str, *, reason: str = "", key: str | None = None
    ) -> OperationDetail:
        """Run the newest operation of a sink again, with the same options."""
        body = drop_empty(reason=reason)
        return self._connection.ask(
            OperationDetail,
            "POST",
            f"{table_path(slug)}sinks/{segment(sink_id)}/relaunch/",
            body,
            key,
        )

    def plan_sink_reset(self, slug: str, sink_id: str, to: str) -> SinkResetPlan:
        """Plan a reset: what a sink reads again or passes over from there. Nothing is changed."""
        body: dict[str, Any] = {"to": to}
        return self._connection.ask(
            SinkResetPlan, "POST", f"{table_path(slug)}sinks/{segment(sink_id)}/reset/plan/", body
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
        body: dict[str, Any] = {
            "reason": reason,
            "table_name": table_name,
            "to": plan["to"],
            "plan_hash": plan["plan_hash"],
        }
        return self._connection.ask(
            SinkReset, "POST", f"{table_path(slug)}sinks/{segment(sink_id)}/reset/", body, key
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
        """Send dead letters to their topic again, each once: those of one commit, of one cause, or
        by name."""
        body = drop_empty(instant=instant, letters=list(letters), cause=cause)
        body |= {"reason": reason}
        return self._connection.ask(
            OperationDetail,
            "POST",
            f"{table_path(slug)}sinks/{segment(sink_id)}/dead-letters/replay/",
            body,
            key,
        )

    def cancel(self, operation_id: str, *, reason: str = "") -> OperationDetail:
        """Ask an operation to stop. Steps that have not begun never will."""
        body = drop_empty(reason=reason)
        return self._connection.ask(
            OperationDetail, "POST", f"operations/{segment(operation_id)}/cancel/", body
        )

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
        body = drop_empty(
            parameters=dict(parameters or {}),
            reason=reason,
            plan_hash=plan_hash,
            table_name=table_name,
        )
        return self._connection.ask(
            OperationDetail, "POST", f"operations/{segment(operation_id)}/again/", body, key
        )

    def stop_writer(
        self, slug: str, requested_at: str, *, reason: str, key: str | None = None
    ) -> OperationDetail:
        """Stop a writer by its pending instant, which is rolled back unless it commits first."""
        body: dict[str, Any] = {"reason": reason}
        return self._connection.ask(
            OperationDetail,
            "POST",
            f"{table_path(slug)}writers/{segment(requested_at)}/abort/",
            body,
            key,
        )

    def register_table(
        self, location: str, slug: str, *, name: str = "", namespace: str = "default"
    ) -> TableRow:
        """Register the table at a location. The mirror reads it under its slug from then on."""
        body = drop_empty(name=name, namespace=namespace)
        body |= {"location": location, "slug": slug}
        return self._connection.ask(TableRow, "POST", "tables/", body)

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
        body = drop_empty(
            name=name,
            namespace=namespace,
            partition_by=list(partition_by),
            ordering=ordering,
            table_type=table_type,
            groups=groups,
            reason=reason,
        )
        body |= {
            "location": location,
            "slug": slug,
            "columns": list(columns),
            "record_key": list(record_key),
        }
        return self._connection.ask(TableRow, "POST", "new-tables/", body, key)

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
        body = drop_unset(
            name=name,
            slug=new_slug,
            namespace=namespace,
            location=location,
            owner=owner,
            tags=tags,
            description=description,
        )
        body |= {"reason": reason}
        return self._connection.ask(TableRow, "PATCH", table_path(slug), body, key)

    def unregister_table(
        self, slug: str, *, reason: str, table_name: str, key: str | None = None
    ) -> Unregistered:
        """Unregister a table. Its files stay. A person types `table_name`."""
        body: dict[str, Any] = {"reason": reason, "table_name": table_name}
        return self._connection.ask(Unregistered, "DELETE", table_path(slug), body, key)

    def mask_columns(self, slug: str, columns: Sequence[str], *, reason: str = "") -> MaskedColumns:
        """Mask these columns of a table and no others."""
        body = drop_empty(reason=reason)
        body |= {"columns": list(columns)}
        return self._connection.ask(
            MaskedColumns, "PUT", f"{table_path(slug)}masked-columns/", body
        )

    def create_schedule(
        self,
        slug: str,
        name: str,
        kind: str,
        *,
        service: str = "",
        parameters: Mapping[str, Any] | None = None,
        every_s: int = 0,
        cron: str = "",
        time_zone: str = "UTC",
        after_schedule: str = "",
        after_operation: str = "",
        reason: str = "",
    ) -> ScheduleRow:
        """Create a schedule that runs as you. Exactly one of `every_s`, `cron`, `after_schedule`
        and `after_operation` is needed."""
        body = drop_empty(
            service=service,
            parameters=dict(parameters or {}),
            every_s=every_s or None,
            cron=cron,
            time_zone=time_zone,
            after_schedule=after_schedule,
            after_operation=after_operation,
            reason=reason,
        )
        body |= {"name": name, "kind": kind}
        return self._connection.ask(ScheduleRow, "POST", f"{table_path(slug)}schedules/", body)

    def change_schedule(
        self,
        slug: str,
        schedule_id: str,
        name: str,
        kind: str,
        *,
        service: str = "",
        parameters: Mapping[str, Any] | None = None,
        every_s: int = 0,
        cron: str = "",
        time_zone: str = "UTC",
        after_schedule: str = "",
        after_operation: str = "",
        reason: str = "",
    ) -> ScheduleRow:
        """Replace all settings of a schedule. It runs as you from then on."""
        body = drop_empty(
            service=service,
            parameters=dict(parameters or {}),
            every_s=every_s or None,
            cron=cron,
            time_zone=time_zone,
            after_schedule=after_schedule,
            after_operation=after_operation,
            reason=reason,
        )
        body |= {"name": name, "kind": kind}
        return self._connection.ask(
            ScheduleRow, "PUT", f"{table_path(slug)}schedules/{segment(schedule_id)}/", body
        )

    def pause_schedule(
        self, slug: str, schedule_id: str, is_paused: bool, *, reason: str = ""
    ) -> ScheduleRow:
        """Pause a schedule or resume it. Due times of the pause are skipped."""
        body = drop_empty(reason=reason)
        body |= {"is_paused": is_paused}
        return self._connection.ask(
            ScheduleRow, "POST", f"{table_path(slug)}schedules/{segment(schedule_id)}/pause/", body
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
        body = drop_empty(
            every_s=every_s, trigger_commits=trigger_commits, parameters=dict(parameters or {})
        )
        body |= {"enabled": enabled}
        return self._connection.ask(
            ServiceSettingRow,
            "PUT",
            f"{table_path(slug)}services/{segment(service)}/schedule/",
            body,
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
        body = drop_empty(
            null_mode=null_mode, on_late=on_late, delete=delete, granularity=granularity
        )
        body |= {
            "name": name,
            "ordering": list(ordering),
            "columns": list(columns),
            "types": dict(types or {}),
            "reason": reason,
            "table_name": table_name,
        }
        return self._connection.ask(StreamsBoard, "POST", f"{table_path(slug)}streams/", body)

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
        body = drop_empty(user=user, group=group, namespace=namespace, table=table, reason=reason)
        body |= {"role": role}
        return self._connection.ask(GrantRow, "POST", "grants/", body)

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
        body = drop_empty(
            user=user,
            group=group,
            namespace=namespace,
            table=table,
            everywhere=everywhere,
            reason=reason,
        )
        body |= {"right": right}
        return self._connection.ask(RowGrantRow, "POST", "row-grants/", body)

    def _table_name(self, slug: str) -> str:
        return self._connection.get(TableRow, table_path(slug))["name"]
