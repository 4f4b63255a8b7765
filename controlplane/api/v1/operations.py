"""Operations: list, one, start a write, cancel; rollbacks: plan, then request.

The list of all tables has the filters of its page (`OperationFilter`).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdmin, IsOperatorToWrite
from controlplane.api.outputs import output, page_of, shown, shown_page
from controlplane.api.parsing import CommaList, SortKey, Strict, validated_query
from controlplane.api.request_bodies import read_body, takes
from controlplane.api.requests import actor, idempotency_key
from controlplane.api.views import ApiView
from controlplane.errors import InvalidRequest
from controlplane.operations.actions import (
    do_request_cancel,
    do_request_planned_write,
    do_request_rollback,
    do_request_write,
    permission_of,
    plan_rollback,
    service_kinds,
)
from controlplane.operations.descriptions.operations import CANCEL
from controlplane.operations.descriptions.rollback import PLAN_ROLLBACK, ROLLBACK
from controlplane.operations.descriptions.write import PLAN_OVERWRITE, WRITE
from controlplane.operations.filters import (
    NOBODY,
    STATE_GROUPS,
    TEXT_CHARS_MAX,
    UNANSWERED,
    OperationFilter,
)
from controlplane.operations.kinds.kind import kinds
from controlplane.operations.kinds.rollback import PlanView
from controlplane.operations.models import Operation
from controlplane.operations.overwrites import OVERWRITES, OverwritePlan, plan_overwrite
from controlplane.operations.planned_writes import is_of_a_service, plan_file_overwrite
from controlplane.operations.queries import (
    SORTED_BY,
    OperationDetail,
    OperationRow,
    access_operation,
    listed_operations,
    operation_detail,
    operations_page,
)
from controlplane.operations.request_places import check_named_places
from controlplane.operations.states import OperationState
from controlplane.paging import CURSOR_CHARS_MAX, PAGE_ROWS, PAGE_ROWS_MAX
from controlplane.tables.access import Permission, access_table, visible_tables


class KindList(CommaList):
    """Names of kinds."""

    def __init__(self, *, with_services: bool = False, **options: Any) -> None:
        services = [service.name for service in service_kinds()] if with_services else []
        super().__init__(choices=[*kinds(), *services], **options)


class OperationQuery(Strict):
    states = CommaList(choices=[one.value for one in OperationState], required=False, default=None)
    kinds = KindList(required=False, default=None)
    limit = serializers.IntegerField(
        min_value=1, max_value=PAGE_ROWS_MAX, required=False, default=PAGE_ROWS
    )
    cursor = serializers.CharField(max_length=CURSOR_CHARS_MAX, required=False, default=None)
    sort = SortKey(SORTED_BY)


class AllOperationsQuery(OperationQuery):
    states = CommaList(
        choices=[*STATE_GROUPS, UNANSWERED, *(one.value for one in OperationState)],
        required=False,
        default=None,
        help_text="`open` and `ended` stand for several; `unanswered` is what broke and was not "
        "run again.",
    )
    kinds = KindList(
        required=False, default=None, with_services=True, help_text="Kinds, or services by name."
    )
    table = serializers.CharField(max_length=64, required=False, default="")
    who = serializers.CharField(
        max_length=150,
        required=False,
        default="",
        help_text=f"A part of the requester's name; `{NOBODY}` for what nobody asked for.",
    )
    since = serializers.DateTimeField(required=False, default=None)
    until = serializers.DateTimeField(required=False, default=None)
    text = serializers.CharField(
        max_length=TEXT_CHARS_MAX,
        required=False,
        default="",
        help_text="A part of the reason, or of the message where you may read all rows of "
        "every table that the operation reads and writes.",
    )


class OperationListApi(ApiView):
    @extend_schema(
        operation_id="operations_list",
        parameters=[AllOperationsQuery],
        responses=page_of(OperationRow),
    )
    def get(self, request: Request) -> Response:
        query = validated_query(AllOperationsQuery, request)
        shown_part = {name: query.pop(name) for name in ("cursor", "limit", "sort")}
        for name in ("states", "kinds"):
            query[name] = frozenset(query[name]) if query[name] else None
        tables = visible_tables(request.user)
        page = listed_operations(tables, request.user, OperationFilter(**query), **shown_part)
        return Response(shown_page(page.rows, page.next_cursor))


class TableOperationListApi(ApiView):
    permission_classes = [IsOperatorToWrite]

    @extend_schema(
        operation_id="table_operations_list",
        parameters=[OperationQuery],
        responses=page_of(OperationRow),
    )
    def get(self, request: Request, slug: str) -> Response:
        query = validated_query(OperationQuery, request)
        table = access_table(request.user, slug, Permission.VIEW)
        page = operations_page(table, request.user, **query)
        return Response(shown_page(page.rows, page.next_cursor))

    @takes(WRITE, "writes_request", OperationDetail)
    def post(self, request: Request, slug: str) -> Response:
        body = read_body(WRITE, request)
        if body["operation"] in OVERWRITES:
            # Sizes of files decide what runs it, and are read for admins of the table alone.
            access_table(request.user, slug, Permission.ADMINISTER)
            check_named_places(actor(request), body)
        is_planned = is_of_a_service(body["operation"], body["source"])
        ask = _planned_write if is_planned else _write
        return Response(_shown_operation(request, ask(request, slug, body).pk), status=202)


def _write(request: Request, slug: str, body: dict[str, Any]) -> Operation:
    is_overwrite = body["operation"] in OVERWRITES
    permission = Permission.ADMINISTER if is_overwrite else Permission.OPERATE
    table = access_table(request.user, slug, permission)
    reason, plan_hash, typed_name = (
        body.pop(name) for name in ("reason", "plan_hash", "table_name")
    )
    words = {"plan_hash": plan_hash, "table_name": typed_name} if not is_overwrite else {}
    given = [name for name, word in words.items() if word]
    if given or body.pop("partitions"):
        raise InvalidRequest(
            "this operation deletes no data and accepts no plan_hash", unknown=given
        )
    return do_request_write(
        table=table,
        parameters=body,
        by=actor(request),
        reason=reason,
        plan_hash=plan_hash,
        typed_name=typed_name,
        idempotency_key=idempotency_key(request),
    )


def _planned_write(request: Request, slug: str, body: dict[str, Any]) -> Operation:
    table = access_table(request.user, slug, permission_of(body["operation"]))
    if given := [name for name in ("stream", "options", "spark_conf") if body.get(name)]:
        raise InvalidRequest(
            "operations that delete data do not accept these settings", unknown=given
        )
    return do_request_planned_write(
        table,
        body["operation"],
        source=body["source"],
        partitions=body["partitions"],
        plan_hash=body["plan_hash"],
        reason=body["reason"],
        typed_name=body["table_name"],
        by=actor(request),
        idempotency_key=idempotency_key(request),
    )


class OverwritePlanApi(ApiView):
    """What a write that overwrites would take away, from whatever its rows come."""

    permission_classes = [IsOperatorToWrite]
    changes_nothing = True

    @takes(PLAN_OVERWRITE, "writes_plan", OverwritePlan, status=200)
    def post(self, request: Request, slug: str) -> Response:
        """Changes nothing. `plan_hash` of the answer goes with the write."""
        table = access_table(request.user, slug, Permission.OPERATE)
        body = read_body(PLAN_OVERWRITE, request)
        operation, source = body["operation"], body["source"]
        check_named_places(actor(request), body)
        if is_of_a_service(operation, source):
            plan = plan_file_overwrite(
                table, operation, source, actor(request), reader=request.user
            )
        else:
            plan = plan_overwrite(table, operation, body, reader=request.user)
        return Response(shown(plan))


class OperationApi(ApiView):
    @extend_schema(operation_id="operations_read", responses=output(OperationDetail))
    def get(self, request: Request, operation_id: UUID) -> Response:
        operation = access_operation(request.user, operation_id, Permission.VIEW)
        return Response(_shown_operation(request, operation.pk))


class OperationCancelApi(ApiView):
    @takes(CANCEL, "operations_cancel", OperationDetail)
    def post(self, request: Request, operation_id: UUID) -> Response:
        operation = access_operation(request.user, operation_id, Permission.OPERATE)
        body = read_body(CANCEL, request)
        do_request_cancel(operation=operation, by=actor(request), **body)
        return Response(_shown_operation(request, operation_id), status=202)


class RollbackPlanApi(ApiView):
    permission_classes = [IsAdmin]

    @takes(PLAN_ROLLBACK, "rollbacks_plan", PlanView, status=200)
    def post(self, request: Request, slug: str) -> Response:
        body = read_body(PLAN_ROLLBACK, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        return Response(shown(plan_rollback(table, body["instant"])))


class RollbackCreateApi(ApiView):
    permission_classes = [IsAdmin]
    throttle_scope = "rollback"

    @takes(ROLLBACK, "rollbacks_request", OperationDetail)
    def post(self, request: Request, slug: str) -> Response:
        body = read_body(ROLLBACK, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        operation = do_request_rollback(
            table,
            body["instant"],
            body["plan_hash"],
            body["reason"],
            body["table_name"],
            actor(request),
            idempotency_key=idempotency_key(request),
        )
        return Response(_shown_operation(request, operation.pk), status=202)


def _shown_operation(request: Request, operation_id: UUID) -> Any:
    return shown(operation_detail(operation_id, request.user))
