"""The audit: its rows, how its chain is, and the file of it; for auditors and admins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.auth import IsAuditor
from controlplane.api.outputs import output, page_of, shown, shown_page
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.requests import actor
from controlplane.audit.exports import CONTENT_TYPES, FORMATS, do_export
from controlplane.audit.queries import (
    AuditFilter,
    AuditRow,
    ChainState,
    audit_event,
    audit_page,
    chain_state,
)
from controlplane.paging import PAGE_ROWS, PAGE_ROWS_MAX


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
    cursor = serializers.CharField(max_length=120, required=False, default=None)


class AuditExportQuery(AuditQuery):
    file_format = serializers.ChoiceField(choices=FORMATS, required=False, default="csv")


class AuditListApi(APIView):
    permission_classes = [IsAuditor]

    @extend_schema(
        operation_id="audit_list", parameters=[AuditListQuery], responses=page_of(AuditRow)
    )
    def get(self, request: Request) -> Response:
        query = validated_query(AuditListQuery, request)
        limit, cursor = query.pop("limit"), query.pop("cursor")
        page = audit_page(AuditFilter(**query), cursor=cursor, limit=limit)
        return Response(shown_page(page.rows, page.next_cursor))


class AuditEventApi(APIView):
    permission_classes = [IsAuditor]

    @extend_schema(operation_id="audit_read", responses=output(AuditRow))
    def get(self, request: Request, event_id: int) -> Response:
        row = audit_event(event_id)
        if row is None:
            raise Http404(str(event_id))
        return Response(shown(row))


class AuditChainApi(APIView):
    permission_classes = [IsAuditor]

    @extend_schema(operation_id="audit_chain", responses=output(ChainState))
    def get(self, request: Request) -> Response:
        return Response(shown(chain_state()))


class AuditExportApi(APIView):
    """Streamed, newest rows first; that it is taken is recorded in the audit itself."""

    permission_classes = [IsAuditor]

    @extend_schema(
        operation_id="audit_export",
        parameters=[AuditExportQuery],
        responses={(200, "text/csv"): str, (200, "application/json"): output(AuditRow)(many=True)},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        query = validated_query(AuditExportQuery, request)
        file_format = query.pop("file_format")
        pieces = do_export(AuditFilter(**query), file_format, by=actor(request).get_username())
        is_async = isinstance(request._request, ASGIRequest)
        response = StreamingHttpResponse(
            _without_blocking(pieces) if is_async else pieces,
            content_type=CONTENT_TYPES[file_format],
        )
        response.headers["Content-Disposition"] = f'attachment; filename="audit.{file_format}"'
        response.headers["Cache-Control"] = "no-store"
        return response


async def _without_blocking(pieces: Iterator[str]) -> AsyncIterator[str]:
    """Each piece is fetched on a thread, so that the server goes on meanwhile."""

    def next_piece() -> str | None:
        return next(pieces, None)

    while (piece := await sync_to_async(next_piece)()) is not None:
        yield piece
