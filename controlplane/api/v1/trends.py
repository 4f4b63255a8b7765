"""Trends of a table by day."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.outputs import output, shown
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.views import ApiView
from controlplane.mirror.queries.trends import DAYS_MAX, Trends, load_trends
from controlplane.tables.access import Permission, access_table
from controlplane.tables.row_access import row_access


class TrendsApi(ApiView):
    """Completed writes by day in UTC: commits, rows, bytes, durations, the longest gap between two
    commits, and the event lag of streams. Compaction and clustering are left out.
    """

    class Query(Strict):
        days = serializers.IntegerField(
            min_value=1, max_value=DAYS_MAX, required=False, default=30, help_text="Up to today."
        )

    @extend_schema(operation_id="trends_read", parameters=[Query], responses=output(Trends))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        days = validated_query(self.Query, request)["days"]
        return Response(shown(load_trends(table, days, row_access(request.user, table))))
