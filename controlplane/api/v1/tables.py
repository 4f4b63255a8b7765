"""Tables: list, register, one; changing what is registered, and taking a table off the register."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdminToWrite
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, page_of, shown, shown_page
from controlplane.api.parsing import SortKey, Strict, validated_query
from controlplane.api.request_bodies import pop_given, read_body, takes
from controlplane.api.requests import actor, idempotency_key
from controlplane.api.views import ApiView
from controlplane.operations.ask import Requester
from controlplane.operations.descriptions.tables import (
    CHANGE_TABLE,
    REGISTER_TABLE,
    UNREGISTER_TABLE,
)
from controlplane.operations.table_changes.actions import (
    TableChange,
    Unregistered,
    do_change_table,
    do_unregister_table,
    unregistered_before,
)
from controlplane.operations.table_changes.hanging import TableChangePlan, table_change_plan
from controlplane.paging import CURSOR_CHARS_MAX, PAGE_ROWS_MAX
from controlplane.tables.access import Permission, access_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.listing import SORTED_BY, TABLES_SHOWN, Wanted, tables_page
from controlplane.tables.queries import TableRow, table_row


class TableListApi(ApiView):
    permission_classes = [IsAdminToWrite]

    class Query(Strict):
        search = serializers.CharField(
            max_length=200,
            required=False,
            default="",
            help_text="In slug, name, location or description.",
        )
        namespace = serializers.CharField(max_length=64, required=False, default="")
        limit = serializers.IntegerField(
            min_value=1, max_value=PAGE_ROWS_MAX, required=False, default=TABLES_SHOWN
        )
        cursor = serializers.CharField(max_length=CURSOR_CHARS_MAX, required=False, default=None)
        sort = SortKey(SORTED_BY)

    @extend_schema(operation_id="tables_list", parameters=[Query], responses=page_of(TableRow))
    def get(self, request: Request) -> Response:
        query = validated_query(self.Query, request)
        wanted = Wanted(search=query["search"], namespace=query["namespace"])
        page = tables_page(
            request.user,
            wanted,
            sort=query["sort"],
            cursor=query["cursor"],
            limit=query["limit"],
        )
        return Response(shown_page(page.rows, page.next_cursor))

    @takes(REGISTER_TABLE, "tables_register", TableRow, status=201)
    def post(self, request: Request) -> Response:
        body = read_body(REGISTER_TABLE, request)
        table = do_register_table(**body, by=actor(request))
        return Response(shown(table_row(table)), status=201)


class TableApi(ApiView):
    permission_classes = [IsAdminToWrite]
    edited_fields = ("name", "slug", "namespace", "location", "owner", "tags", "description")

    @extend_schema(operation_id="tables_read", responses=output(TableRow))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown(table_row(table)))

    @if_unchanged
    @takes(CHANGE_TABLE, "tables_change", TableRow, status=200)
    def patch(self, request: Request, slug: str) -> Response:
        body = read_body(CHANGE_TABLE, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        given = pop_given(request, body)
        by = Requester.person(actor(request))
        changed = do_change_table(table, TableChange(**body), by=by, given=given)
        return Response(shown(table_row(changed)))

    @if_unchanged
    @takes(UNREGISTER_TABLE, "tables_unregister", Unregistered, status=200)
    def delete(self, request: Request, slug: str) -> Response:
        body = read_body(UNREGISTER_TABLE, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        given = pop_given(request, body)
        done = do_unregister_table(table, by=Requester.person(actor(request)), given=given)
        return Response(shown(done))

    def handle_exception(self, exc: Exception) -> Response:
        """A table that the same request unregistered before is answered for again."""
        if isinstance(exc, Http404) and self.request.method == "DELETE":
            by = Requester.person(actor(self.request))
            done = unregistered_before(by, idempotency_key(self.request), self.kwargs["slug"])
            if done is not None:
                return Response(shown(done))
        return super().handle_exception(exc)


class UnregisterPlanApi(ApiView):
    @extend_schema(operation_id="tables_unregister_plan", responses=output(TableChangePlan))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown(table_change_plan(table)))
