"""POST /api/v1/tables/<slug>/sources/preview/: a file, a statement or a database's rows beside the
table that they would go to.
"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsOperator
from controlplane.api.outputs import output, shown
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.operations.source_previews import SourcePreview, preview_source
from controlplane.tables.access import Permission, access_table


class SourcePreviewApi(ApiView):
    """Its columns, those of the table, and why the write would be refused. Changes nothing."""

    permission_classes = [IsOperator]
    throttle_scope = "service"

    class PreviewRequest(Strict):
        source = serializers.DictField(help_text="As a write takes it: a file, sql or postgresql.")  # type: ignore[assignment]  # the name of a base's attribute
        operation = serializers.CharField(max_length=32, required=False, default="upsert")
        stream = serializers.CharField(max_length=100, required=False, default=None)

    @extend_schema(
        operation_id="sources_preview", request=PreviewRequest, responses=output(SourcePreview)
    )
    def post(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.OPERATE)
        body = validated(self.PreviewRequest, request)
        return Response(shown(preview_source(table, by=actor(request), **body)))
