"""Writers and conflicts of one table, and the marker server."""

from __future__ import annotations

from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdmin
from controlplane.api.outputs import output, page_of, shown, shown_list, shown_page
from controlplane.api.parsing import SortKey, Strict, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.operations.actions import do_restart_marker_server
from controlplane.operations.queries import MarkerServerStatus, marker_server_status
from controlplane.paging import CURSOR_CHARS_MAX, PAGE_ROWS, PAGE_ROWS_MAX
from controlplane.tables.access import Permission, access_table
from controlplane.tables.row_access import row_access
from controlplane.writers.conflicts import (
    SORTED_BY,
    ConflictDetail,
    ConflictRow,
    conflict_detail,
    conflicts_page,
)
from controlplane.writers.queries import WriterRow, writers_board


class WriterListApi(ApiView):
    sort_keys = ("writer", "instant", "beat_at", "state", "markers")

    @extend_schema(operation_id="writers_list", responses=output(WriterRow)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(writers_board(table, timezone.now())))


class ConflictListApi(ApiView):
    class Query(Strict):
        kind = serializers.ChoiceField(choices=["write", "schema"], required=False, default=None)
        detected = serializers.ChoiceField(
            choices=["early", "commit"], required=False, default=None
        )
        writer = serializers.CharField(
            max_length=200,
            required=False,
            default=None,
            help_text="Part of the name of either side.",
        )
        limit = serializers.IntegerField(
            min_value=1, max_value=PAGE_ROWS_MAX, required=False, default=PAGE_ROWS
        )
        cursor = serializers.CharField(max_length=CURSOR_CHARS_MAX, required=False, default=None)
        sort = SortKey(SORTED_BY)

    @extend_schema(
        operation_id="conflicts_list", parameters=[Query], responses=page_of(ConflictRow)
    )
    def get(self, request: Request, slug: str) -> Response:
        query = validated_query(self.Query, request)
        table = access_table(request.user, slug, Permission.VIEW)
        page = conflicts_page(table, row_access(request.user, table), **query)
        return Response(shown_page(page.rows, page.next_cursor))


class ConflictApi(ApiView):
    """By the instant that lost."""

    @extend_schema(operation_id="conflicts_read", responses=output(ConflictDetail))
    def get(self, request: Request, slug: str, requested_at: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        detail = conflict_detail(table, row_access(request.user, table), requested_at)
        if detail is None:
            raise Http404(requested_at)
        return Response(shown(detail))


class MarkerServerApi(ApiView):
    @extend_schema(operation_id="marker_server_read", responses=output(MarkerServerStatus))
    def get(self, request: Request) -> Response:
        return Response(shown(marker_server_status()))


class MarkerServerRestartApi(ApiView):
    permission_classes = [IsAdmin]

    @extend_schema(
        operation_id="marker_server_restart", request=None, responses=output(MarkerServerStatus)
    )
    def post(self, request: Request) -> Response:
        do_restart_marker_server(actor(request))
        return Response(shown(marker_server_status()))
