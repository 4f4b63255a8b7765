"""Instants, schemas and markers of one table, from the mirror."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.known_answers import answered_unless_known
from controlplane.api.outputs import output, page_of, shown, shown_list, shown_page
from controlplane.api.parsing import CommaList, Strict, validated_query
from controlplane.api.views import ApiView
from controlplane.fields import InstantTimeSerializerField
from controlplane.mirror.queries.table_details import (
    FieldChange,
    InstantDetail,
    MarkerRow,
    SchemaRow,
    field_changes,
    instant_detail,
    pending_markers,
    schema_history,
)
from controlplane.mirror.timeline_pages import Listed, timeline_digest, timeline_page
from controlplane.mirror.timeline_rows import ACTIONS, STATES, InstantRow
from controlplane.tables.access import Permission, access_table
from controlplane.tables.row_access import row_access

PAGE_ROWS = 100


class InstantListApi(ApiView):
    class Query(Strict):
        since = InstantTimeSerializerField(required=False, default=None)
        until = InstantTimeSerializerField(required=False, default=None)
        actions = CommaList(choices=list(ACTIONS), required=False, default=None)
        states = CommaList(choices=list(STATES), required=False, default=None)
        archived = serializers.BooleanField(
            required=False, default=None, allow_null=True, help_text="Only these, or only active."
        )
        limit = serializers.IntegerField(
            min_value=1, max_value=3000, required=False, default=PAGE_ROWS
        )
        cursor = serializers.CharField(max_length=64, required=False, default=None)

    @extend_schema(operation_id="instants_list", parameters=[Query], responses=page_of(InstantRow))
    def get(self, request: Request, slug: str) -> Response:
        query = validated_query(self.Query, request)
        table = access_table(request.user, slug, Permission.VIEW)
        listed = Listed(**query)

        def listed_page() -> tuple[Any, str]:
            listing = timeline_page(table, listed)
            return shown_page(listing.rows, listing.next_cursor), listing.digest

        return answered_unless_known(request, lambda: timeline_digest(table, listed), listed_page)


class InstantApi(ApiView):
    @extend_schema(operation_id="instants_read", responses=output(InstantDetail))
    def get(self, request: Request, slug: str, requested_at: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        detail = instant_detail(table, row_access(request.user, table), requested_at)
        if detail is None:
            raise Http404(requested_at)
        return Response(shown(detail))


class SchemaListApi(ApiView):
    @extend_schema(operation_id="schemas_list", responses=output(SchemaRow)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(schema_history(table)))


class SchemaDiffApi(ApiView):
    class Query(Strict):
        before = InstantTimeSerializerField()
        after = InstantTimeSerializerField()

    @extend_schema(
        operation_id="schemas_diff",
        parameters=[Query],
        responses=output(FieldChange)(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        query = validated_query(self.Query, request)
        table = access_table(request.user, slug, Permission.VIEW)
        known = {row.instant: row.avro for row in schema_history(table)}
        for instant in query.values():
            if instant not in known:
                raise Http404(instant)
        return Response(shown_list(field_changes(known[query["before"]], known[query["after"]])))


class MarkerListApi(ApiView):
    @extend_schema(operation_id="markers_list", responses=output(MarkerRow)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(pending_markers(table)))
