"""What goes on now on one table: writers with what they claim, the lock, markers, and the end of a
writer.
"""

from __future__ import annotations

from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsOperator
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.request_bodies import read_body, takes
from controlplane.api.requests import actor, idempotency_key
from controlplane.api.views import ApiView
from controlplane.mirror.marker_tree import MarkerTree, marker_tree
from controlplane.operations.actions import do_request_abort
from controlplane.operations.descriptions.operations import STOP_WRITER
from controlplane.operations.queries import OperationDetail, operation_detail
from controlplane.tables.access import Permission, access_table
from controlplane.writers.activity import WriterActivity, writers_activity
from controlplane.writers.locks import (
    HISTORY_MAX,
    LockStatus,
    LockWait,
    lock_status,
    lock_waits,
)
from controlplane.writers.markers import MarkerDirectoryRow, marker_directories


class WriterActivityApi(ApiView):
    @extend_schema(operation_id="writers_activity", responses=output(WriterActivity)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(writers_activity(table, timezone.now())))


class WriterAbortApi(ApiView):
    """By its pending instant, which is rolled back unless it commits first."""

    permission_classes = [IsOperator]

    @takes(STOP_WRITER, "writers_abort", OperationDetail)
    def post(self, request: Request, slug: str, requested_at: str) -> Response:
        body = read_body(STOP_WRITER, request)
        table = access_table(request.user, slug, Permission.OPERATE)
        operation = do_request_abort(
            table,
            requested_at,
            reason=body["reason"],
            by=actor(request),
            idempotency_key=idempotency_key(request),
        )
        return Response(shown(operation_detail(operation.pk, request.user)), status=202)


class LockApi(ApiView):
    @extend_schema(operation_id="lock_read", responses=output(LockStatus))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        status = lock_status(table, timezone.now())
        if status is None:
            raise Http404("the state of the lock is not known yet: retry in some seconds")
        return Response(shown(status))


class LockWaitListApi(ApiView):
    class Query(Strict):
        limit = serializers.IntegerField(
            min_value=1, max_value=HISTORY_MAX, required=False, default=HISTORY_MAX
        )

    @extend_schema(
        operation_id="lock_waits", parameters=[Query], responses=output(LockWait)(many=True)
    )
    def get(self, request: Request, slug: str) -> Response:
        query = validated_query(self.Query, request)
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(lock_waits(table, **query)))


class MarkerDirectoryListApi(ApiView):
    sort_keys = ("instant", "markers", "age_s")

    @extend_schema(
        operation_id="markers_directories", responses=output(MarkerDirectoryRow)(many=True)
    )
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(marker_directories(table, timezone.now())))


class MarkerTreeApi(ApiView):
    """Read from storage, now."""

    @extend_schema(operation_id="markers_tree", responses=output(MarkerTree))
    def get(self, request: Request, slug: str, requested_at: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        tree = marker_tree(table, requested_at)
        if tree is None:
            raise Http404(f"{requested_at} has no markers")
        return Response(shown(tree))
