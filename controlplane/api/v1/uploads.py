"""Uploads of the caller: list them, send a file, delete one. A source names one by its `path`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any
from uuid import UUID

from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser, DataAndFiles
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.operations.upload_uses import do_delete_upload
from controlplane.tables.access import Permission, begin_visit, may_see_some, may_somewhere
from controlplane.uploads.models import Upload
from controlplane.uploads.queries import UploadRow, upload_row, upload_rows
from controlplane.uploads.request_body import receive_upload


class UnreadBody(BaseParser):
    """Leaves the body to the view, which reads it after its checks."""

    media_type = "*/*"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> DataAndFiles[Any, Any]:
        """Return nothing, and read nothing."""
        return DataAndFiles({}, {})


class MaySendFiles(BasePermission):
    """Lists are a viewer's; the rest needs the operator role on some table."""

    message = ""

    def has_permission(self, request: Request, view: object) -> bool:
        is_reading = request.method in SAFE_METHODS
        role = (Permission.VIEW if is_reading else Permission.OPERATE).role
        self.message = f"this requires the {role} role" + ("" if is_reading else " on a table")
        begin_visit(request.user)
        if is_reading:
            return may_see_some(request.user)
        return may_somewhere(request.user, Permission.OPERATE)


class UploadListApi(ApiView):
    permission_classes = [MaySendFiles]
    parser_classes = [UnreadBody]

    class UploadQuery(Strict):
        name = serializers.CharField(
            max_length=1_000,
            required=False,
            default="",
            help_text="The name of the file, for a raw body. A form has it with the file.",
        )

    @extend_schema(operation_id="uploads_list", responses=output(UploadRow)(many=True))
    def get(self, request: Request) -> Response:
        """Return the caller's own uploads, the newest first."""
        return Response(shown_list(upload_rows(actor(request))))

    @extend_schema(
        operation_id="uploads_create",
        parameters=[UploadQuery],
        request={
            "application/octet-stream": OpenApiTypes.BINARY,
            "multipart/form-data": {
                "type": "object",
                "properties": {"file": {"type": "string", "format": "binary"}},
                "required": ["file"],
            },
        },
        responses={201: output(UploadRow)},
    )
    def post(self, request: Request) -> Response:
        """Store a file. A write, an overwrite, a delete or a suggestion names it by `path` of the
        answer. It is removed once an operation has loaded it.
        """
        query = validated_query(self.UploadQuery, request)
        upload = receive_upload(request._request, actor(request), query["name"])
        return Response(shown(upload_row(upload)), status=201)


class UploadApi(ApiView):
    permission_classes = [MaySendFiles]

    @extend_schema(
        operation_id="uploads_delete",
        parameters=[OpenApiParameter("upload_id", OpenApiTypes.UUID, OpenApiParameter.PATH)],
        responses={204: None},
    )
    def delete(self, request: Request, upload_id: UUID) -> Response:
        """Delete an upload of the caller that no open operation needs."""
        by = actor(request)
        upload = Upload.objects.filter(pk=upload_id, owner=by).first()
        if upload is None:
            raise Http404(f"upload {upload_id} not found")
        do_delete_upload(upload, by=by.get_username())
        return Response(status=204)
