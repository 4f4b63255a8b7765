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
)


class OperationCalls:
    """A part of `Client`."""

    _connection: Connection

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

    def _table_name(self, slug: str) -> str:
        return str(self._connection.get(table_path(slug))["name"])
