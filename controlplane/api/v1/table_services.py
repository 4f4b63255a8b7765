"""Table services: what there is, plan, run, schedule; savepoints and what was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdminToWrite, IsOperator
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.request_bodies import read_body, takes
from controlplane.api.requests import actor, idempotency_key
from controlplane.api.views import ApiView
from controlplane.mirror.queries.files import Backlog, backlog
from controlplane.mirror.queries.table_services import (
    PendingPlanRow,
    SavepointRow,
    ServiceRunRow,
    pending_plans,
    savepoints,
    service_history,
)
from controlplane.operations.actions import (
    ServiceKind,
    ServicePlanView,
    check_row_choice,
    do_request_service,
    do_update_service_setting,
    permission_of,
    permission_to_plan,
    plan_service,
    service_kinds,
)
from controlplane.operations.descriptions.schedules import SET_SERVICE
from controlplane.operations.descriptions.services import PLAN_SERVICE, SERVICE
from controlplane.operations.queries import OperationDetail, operation_detail
from controlplane.operations.request_places import check_named_places
from controlplane.operations.schedules import (
    ServiceSettingRow,
    service_setting,
    service_settings,
)
from controlplane.paging import PAGE_ROWS, PAGE_ROWS_MAX
from controlplane.tables.access import Permission, access_table


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceBoard:
    kinds: list[ServiceKind]
    backlog: Backlog
    pending: list[PendingPlanRow]
    settings: list[ServiceSettingRow]


class ServiceListApi(ApiView):
    @extend_schema(operation_id="services_read", responses=output(ServiceBoard))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        board = ServiceBoard(
            kinds=service_kinds(),
            backlog=backlog(table),
            pending=pending_plans(table),
            settings=service_settings(table),
        )
        return Response(shown(board))


class ServicePlanApi(ApiView):
    changes_nothing = True

    @takes(PLAN_SERVICE, "services_plan", ServicePlanView, status=200)
    def post(self, request: Request, slug: str, service: str) -> Response:
        body = read_body(PLAN_SERVICE, request)
        table = access_table(request.user, slug, permission_to_plan(body["parameters"]))
        check_named_places(actor(request), body)
        check_row_choice(request.user, table, service, body["parameters"])
        plan = plan_service(table, service, body["parameters"], None, reader=request.user)
        return Response(shown(plan))


class ServiceRunApi(ApiView):
    permission_classes = [IsOperator]
    throttle_scope = "service"

    @takes(SERVICE, "services_request", OperationDetail)
    def post(self, request: Request, slug: str, service: str) -> Response:
        body = read_body(SERVICE, request)
        table = access_table(request.user, slug, permission_of(service))
        operation = do_request_service(
            table,
            service,
            body["parameters"],
            body["plan_hash"],
            body["reason"],
            body["table_name"],
            actor(request),
            idempotency_key=idempotency_key(request),
        )
        detail: Any = operation_detail(operation.pk, request.user)
        return Response(shown(detail), status=202)


class ServiceSettingApi(ApiView):
    permission_classes = [IsAdminToWrite]
    edited_fields = ("enabled", "every_s", "trigger_commits", "parameters")

    @extend_schema(operation_id="services_schedule_read", responses=output(ServiceSettingRow))
    def get(self, request: Request, slug: str, service: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown(service_setting(table, service)))

    @if_unchanged
    @takes(SET_SERVICE, "services_schedule", ServiceSettingRow, status=200)
    def put(self, request: Request, slug: str, service: str) -> Response:
        body = read_body(SET_SERVICE, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        row = do_update_service_setting(table=table, service=service, by=actor(request), **body)
        return Response(shown(row))


class ServiceHistoryApi(ApiView):
    class Query(Strict):
        limit = serializers.IntegerField(
            min_value=1, max_value=PAGE_ROWS_MAX, required=False, default=PAGE_ROWS
        )

    @extend_schema(
        operation_id="services_history",
        parameters=[Query],
        responses=output(ServiceRunRow)(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        query = validated_query(self.Query, request)
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(service_history(table, query["limit"])))


class SavepointListApi(ApiView):
    sort_keys = ("instant", "completed_at", "files")

    @extend_schema(operation_id="savepoints_list", responses=output(SavepointRow)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(savepoints(table)))
