"""File groups and partitions of one table, from the mirror."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.outputs import output, page_of, shown, shown_list, shown_page
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.views import ApiView
from controlplane.mirror.queries.files import (
    PARTITIONS_MAX,
    SEARCH_CHARS_MAX,
    FileGroupDetail,
    FileGroupRow,
    PartitionRow,
    file_group,
    file_groups_page,
    partitions,
)
from controlplane.paging import PAGE_ROWS, PAGE_ROWS_MAX
from controlplane.tables.access import Permission, access_table

PATH_CHARS_MAX = 1024


class FileGroupListApi(ApiView):
    class Query(Strict):
        partition = serializers.CharField(
            max_length=PATH_CHARS_MAX, required=False, default=None, allow_blank=True
        )
        search = serializers.CharField(
            max_length=SEARCH_CHARS_MAX, required=False, default="", allow_blank=True
        )
        order = serializers.ChoiceField(
            choices=["partition", "-bytes", "-log_files"], required=False, default="partition"
        )
        limit = serializers.IntegerField(
            min_value=1, max_value=PAGE_ROWS_MAX, required=False, default=PAGE_ROWS
        )
        cursor = serializers.CharField(max_length=3000, required=False, default=None)

    @extend_schema(
        operation_id="file_groups_list",
        description="The file groups with the newest writes. `backlog.left_out` of a table's "
        "services counts those that are not listed, because the table has too many.",
        parameters=[Query],
        responses=page_of(FileGroupRow),
    )
    def get(self, request: Request, slug: str) -> Response:
        query = validated_query(self.Query, request)
        table = access_table(request.user, slug, Permission.VIEW)
        page = file_groups_page(table, **query)
        return Response(shown_page(page.rows, page.next_cursor))


class FileGroupApi(ApiView):
    class Query(Strict):
        partition = serializers.CharField(
            max_length=PATH_CHARS_MAX, required=False, default="", allow_blank=True
        )

    @extend_schema(
        operation_id="file_groups_read", parameters=[Query], responses=output(FileGroupDetail)
    )
    def get(self, request: Request, slug: str, file_id: str) -> Response:
        query = validated_query(self.Query, request)
        table = access_table(request.user, slug, Permission.VIEW)
        detail: Any = file_group(table, partition=query["partition"], file_id=file_id)
        if detail is None:
            raise Http404(file_id)
        return Response(shown(detail))


class PartitionListApi(ApiView):
    sort_keys = ("partition", "bytes", "file_groups", "log_bytes", "small_files", "last_instant")

    @extend_schema(
        operation_id="partitions_list",
        description=f"At most {PARTITIONS_MAX:,} partitions, those with the newest writes. "
        "`backlog.partitions` of a table's services counts all.",
        responses=output(PartitionRow)(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(partitions(table)))
