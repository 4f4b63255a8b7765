"""The log of an operation: in pages, and as one text."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.outputs import output, shown
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.views import ApiView
from controlplane.operations.log_queries import (
    LEVELS,
    LINES_MAX,
    LINES_SHOWN,
    TEXT_CHARS_MAX,
    LogPage,
    log_as_text,
    log_page,
)
from controlplane.operations.queries import access_operation
from controlplane.operations.query_sources import shown_whole
from controlplane.tables.access import Permission

_ID_MAX = 2**63 - 1


class LogTextQuery(Strict):
    level = serializers.ChoiceField(
        choices=LEVELS, required=False, default="", help_text="From this level on."
    )
    text = serializers.CharField(
        max_length=TEXT_CHARS_MAX,
        required=False,
        default="",
        help_text="A part of the message or of its source.",
    )


class LogQuery(LogTextQuery):
    before = serializers.IntegerField(
        min_value=0, max_value=_ID_MAX, required=False, default=None, help_text="`older` of a page."
    )
    after = serializers.IntegerField(
        min_value=0, max_value=_ID_MAX, required=False, default=None, help_text="`newer` of a page."
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=LINES_MAX, required=False, default=LINES_SHOWN
    )


class OperationLogApi(ApiView):
    """The newest lines in the order of their arrival; `older` and `newer` lead on, and `newer` may
    be asked again until there are more. Values of rows are hidden unless you may read all rows of
    every table that the operation reads and writes.
    """

    @extend_schema(operation_id="operations_log", parameters=[LogQuery], responses=output(LogPage))
    def get(self, request: Request, operation_id: UUID) -> Response:
        query = validated_query(LogQuery, request)
        operation = access_operation(request.user, operation_id, Permission.VIEW)
        is_whole = operation_id in shown_whole(request.user, [operation])
        return Response(shown(log_page(operation_id, is_whole=is_whole, **query)))


class OperationLogDownloadApi(ApiView):
    """Every line that is kept, as text."""

    @extend_schema(
        operation_id="operations_log_download",
        parameters=[LogTextQuery],
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    def get(self, request: Request, operation_id: UUID) -> HttpResponse:
        query = validated_query(LogTextQuery, request)
        operation = access_operation(request.user, operation_id, Permission.VIEW)
        is_whole = operation_id in shown_whole(request.user, [operation])
        lines = log_as_text(operation_id, is_whole=is_whole, **query)
        response = HttpResponse(lines, content_type="text/plain; charset=utf-8")
        name = f"operation-{operation_id}.log"
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return response
