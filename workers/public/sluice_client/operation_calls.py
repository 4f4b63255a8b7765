"""Requests for operations, by their descriptions. Made by `manage.py client_rows`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .connection import Connection, drop_empty, segment, table_path
from .rows import (
    OperationDetail,
    OverwritePlan,
    PlanView,
    ServicePlanView,
    SinkReset,
    SinkResetPlan,
    SinkSummary,
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
        body: dict[str, Any] = {
            "source": dict(source),
            "partitions": list(partitions),
            "operation": operation,
            "stream": stream,
            "options": dict(options or {}),
            "spark_conf": dict(spark_conf or {}),
            "reason": reason,
        }
        if plan is not None:
            body["plan_hash"] = plan["plan_hash"]
            body["table_name"] = self._table_name(slug)
        path = f"{table_path(slug)}operations/"
        answer: OperationDetail = self._connection.send("POST", path, drop_empty(body), key=key)
        return answer

    def plan_overwrite(
        self,
        slug: str,
        source: Mapping[str, Any],
        *,
        operation: str = "insert_overwrite_table",
    ) -> OverwritePlan:
        """Plan an overwrite from a statement, a topic or JSON lines. Nothing is changed."""
        body: dict[str, Any] = {
            "source": dict(source),
            "operation": operation,
        }
        path = f"{table_path(slug)}operations/plan/"
        answer: OverwritePlan = self._connection.send("POST", path, drop_empty(body))
        return answer

    def plan_rollback(
        self,
        slug: str,
        instant: str,
    ) -> PlanView:
        """Plan the rollback of an instant: what it would delete. Nothing is changed."""
        body: dict[str, Any] = {
            "instant": instant,
        }
        path = f"{table_path(slug)}rollbacks/plan/"
        answer: PlanView = self._connection.send("POST", path, drop_empty(body))
        return answer

    def roll_back(
        self,
        slug: str,
        plan: PlanView,
        *,
        reason: str,
        key: str | None = None,
    ) -> OperationDetail:
        """Roll back an instant exactly as planned. Refused as `plan_changed` once the table moved
        on."""
        body: dict[str, Any] = {
            "reason": reason,
            "instant": plan["instant"],
            "plan_hash": plan["plan_hash"],
            "table_name": self._table_name(slug),
        }
        path = f"{table_path(slug)}rollbacks/"
        answer: OperationDetail = self._connection.send("POST", path, drop_empty(body), key=key)
        return answer

    def plan_service(
        self,
        slug: str,
        service: str,
        parameters: Mapping[str, str] | None = None,
    ) -> ServicePlanView:
        """Plan a run of a table service. Nothing is changed."""
        body: dict[str, Any] = {
            "parameters": dict(parameters or {}),
        }
        path = f"{table_path(slug)}services/{segment(service)}/plan/"
        answer: ServicePlanView = self._connection.send("POST", path, drop_empty(body))
        return answer

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
        body: dict[str, Any] = {
            "parameters": dict(parameters or {}),
            "reason": reason,
        }
        if plan is not None:
            body["plan_hash"] = plan["plan_hash"]
            body["table_name"] = self._table_name(slug)
        path = f"{table_path(slug)}services/{segment(service)}/"
        answer: OperationDetail = self._connection.send("POST", path, drop_empty(body), key=key)
        return answer

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
        body: dict[str, Any] = {
            "sink_options": dict(sink_options or {}),
            "application": application,
            "spark_conf": dict(spark_conf or {}),
            "relaunches_max": relaunches_max,
            "reason": reason,
        }
        path = f"{table_path(slug)}sinks/"
        answer: OperationDetail = self._connection.send("POST", path, drop_empty(body), key=key)
        return answer

    def stop_sink(
        self,
        slug: str,
        sink_id: str,
        kind: str = "graceful",
        *,
        reason: str = "",
    ) -> SinkSummary:
        """Ask a sink to stop, whether or not the node runs it."""
        body: dict[str, Any] = {
            "kind": kind,
            "reason": reason,
        }
        path = f"{table_path(slug)}sinks/{segment(sink_id)}/stop/"
        answer: SinkSummary = self._connection.send("POST", path, drop_empty(body))
        return answer

    def relaunch_sink(
        self,
        slug: str,
        sink_id: str,
        *,
        reason: str = "",
        key: str | None = None,
    ) -> OperationDetail:
        """Run the newest operation of a sink again, with the same options."""
        body: dict[str, Any] = {
            "reason": reason,
        }
        path = f"{table_path(slug)}sinks/{segment(sink_id)}/relaunch/"
        answer: OperationDetail = self._connection.send("POST", path, drop_empty(body), key=key)
        return answer

    def plan_sink_reset(
        self,
        slug: str,
        sink_id: str,
        to: str,
    ) -> SinkResetPlan:
        """Plan a reset: what a sink reads again or passes over from there. Nothing is changed."""
        body: dict[str, Any] = {
            "to": to,
        }
        path = f"{table_path(slug)}sinks/{segment(sink_id)}/reset/plan/"
        answer: SinkResetPlan = self._connection.send("POST", path, drop_empty(body))
        return answer

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
        path = f"{table_path(slug)}sinks/{segment(sink_id)}/reset/"
        answer: SinkReset = self._connection.send("POST", path, drop_empty(body), key=key)
        return answer

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
        body: dict[str, Any] = {
            "instant": instant,
            "letters": list(letters),
            "cause": cause,
            "reason": reason,
        }
        path = f"{table_path(slug)}sinks/{segment(sink_id)}/dead-letters/replay/"
        answer: OperationDetail = self._connection.send("POST", path, drop_empty(body), key=key)
        return answer

    def _table_name(self, slug: str) -> str:
        return str(self._connection.get(table_path(slug))["name"])
