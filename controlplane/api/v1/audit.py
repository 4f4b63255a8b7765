"""The audit: its rows, how its chain is, and the file of it; for auditors and admins."""

from __future__ import annotations

from django.http import Http404, StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAuditor
from controlplane.api.list_files import file_response
from controlplane.api.outputs import output, page_of, shown, shown_page
from controlplane.api.parsing import SortKey, Strict, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.audit.exports import CONTENT_TYPES, FORMATS, do_export
from controlplane.audit.queries import (
    SORTED_BY,
    AuditFilter,
    AuditRow,
    ChainState,
    find_audit_row,
    load_audit_page,
    load_chain_state,
)
from controlplane.paging import CURSOR_CHARS_MAX, PAGE_ROWS, PAGE_ROWS_MAX


class AuditQuery(Strict):
    who = serializers.CharField(max_length=150, required=False, default="")
    what = serializers.CharField(
        max_length=64,
        required=False,
        default="",
        help_text="`service.clean`; with a dot at its end all that begin so: `service.`",
    )
    object = serializers.CharField(
        max_length=255, required=False, default="", help_text="A table's slug, mostly."
    )
    result = serializers.CharField(max_length=32, required=False, default="")
    request_id = serializers.CharField(max_length=64, required=False, default="")
    since = serializers.DateTimeField(required=False, default=None)
    until = serializers.DateTimeField(
        required=False, default=None, help_text="The first moment that is left out."
    )


class AuditListQuery(AuditQuery):
    limit = serializers.IntegerField(
        min_value=1, max_value=PAGE_ROWS_MAX, required=False, default=PAGE_ROWS
    )
    cursor = serializers.CharField(max_length=CURSOR_CHARS_MAX, required=False, default=None)
    sort = SortKey(SORTED_BY)


class AuditExportQuery(AuditQuery):
    file_format = serializers.ChoiceField(choices=FORMATS, required=False, default="csv")


class AuditListApi(ApiView):
    permission_classes = [IsAuditor]
    is_taken_as_file = False  # Its file has an address of its own: who takes it is recorded.

    @extend_schema(
        operation_id="audit_list", parameters=[AuditListQuery], responses=page_of(AuditRow)
    )
    def get(self, request: Request) -> Response:
        query = validated_query(AuditListQuery, request)
        shown_part = {name: query.pop(name) for name in ("cursor", "limit", "sort")}
        page = load_audit_page(AuditFilter(**query), **shown_part)
        return Response(shown_page(page.rows, page.next_cursor))


class AuditEventApi(ApiView):
    permission_classes = [IsAuditor]

    @extend_schema(operation_id="audit_read", responses=output(AuditRow))
    def get(self, request: Request, event_id: int) -> Response:
        row = find_audit_row(event_id)
        if row is None:
            raise Http404(str(event_id))
        return Response(shown(row))


class AuditChainApi(ApiView):
    permission_classes = [IsAuditor]

    @extend_schema(operation_id="audit_chain", responses=output(ChainState))
    def get(self, request: Request) -> Response:
        return Response(shown(load_chain_state()))


class AuditExportApi(ApiView):
    """Streamed, newest rows first; that it is taken is recorded in the audit itself."""

    permission_classes = [IsAuditor]

    @extend_schema(
        operation_id="audit_export",
        parameters=[AuditExportQuery],
        responses={
            (200, "text/csv"): str,
            (200, "application/json"): output(AuditRow)(many=True),
            (200, CONTENT_TYPES["parquet"]): bytes,
        },
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        query = validated_query(AuditExportQuery, request)
        file_format = query.pop("file_format")
        pieces = do_export(AuditFilter(**query), file_format, by=actor(request).get_username())
        return file_response(
            request,
            pieces,
            content_type=CONTENT_TYPES[file_format],
            name=f"audit.{file_format}",
        )
