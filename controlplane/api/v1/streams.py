"""Streams of a joined table: how far each is, which keys have which, why a cell is null."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdminToWrite
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.request_bodies import read_body, takes
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.mirror.cell_stories import CellAnswer, explain
from controlplane.mirror.group_rows import GroupCommitRow
from controlplane.mirror.queries.streams import StreamsBoard, commit_rows, streams_board
from controlplane.mirror.queries.table_details import JoinStatus, join_status
from controlplane.operations.actions import do_declare_stream
from controlplane.operations.descriptions.streams import DECLARE_STREAM
from controlplane.operations.stream_rounds import StreamRounds, stream_rounds
from controlplane.tables.access import Permission, access_table
from controlplane.tables.row_access import row_access


class StreamListApi(ApiView):
    permission_classes = [IsAdminToWrite]

    @extend_schema(operation_id="streams_read", responses=output(JoinStatus))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown(join_status(table, row_access(request.user, table))))

    @takes(DECLARE_STREAM, "streams_declare", StreamsBoard, status=201)
    def post(self, request: Request, slug: str) -> Response:
        body = read_body(DECLARE_STREAM, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        types, reason, typed = body.pop("types"), body.pop("reason"), body.pop("table_name")
        do_declare_stream(table, body, types, reason=reason, typed_name=typed, by=actor(request))
        return Response(shown(streams_board(table, row_access(request.user, table))), status=201)


class JoinApi(ApiView):
    """From the mirror and the newest sample; never reads the table."""

    @extend_schema(operation_id="streams_join", responses=output(StreamsBoard))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown(streams_board(table, row_access(request.user, table))))


class StreamRoundListApi(ApiView):
    """Which streams write, wait for their next round, are silent, or have ended."""

    @extend_schema(operation_id="streams_rounds", responses=output(StreamRounds)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(stream_rounds(table)))


class StreamCommitListApi(ApiView):
    """What the newest commits brought to each stream: event time against arrival."""

    @extend_schema(operation_id="streams_commits", responses=output(GroupCommitRow)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(commit_rows(table, row_access(request.user, table))))


class CellApi(ApiView):
    """Why is this cell null? Reads the file slices of one key from storage, now."""

    class Query(Strict):
        key = serializers.CharField(max_length=1000, help_text="As in `_hoodie_record_key`.")
        column = serializers.CharField(max_length=200, required=False, default="")
        partition = serializers.CharField(max_length=1000, required=False, default=None)

    @extend_schema(
        operation_id="streams_explain",
        parameters=[Query],
        responses=output(CellAnswer)(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        query = validated_query(self.Query, request)
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(explain(table, row_access(request.user, table), **query)))
