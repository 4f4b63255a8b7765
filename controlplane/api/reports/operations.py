"""POST /api/v1/reports/operations: what a worker says about its own operation. A hint; the answer
is always quick. `leave/` below it: whether the operation may begin.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.auth import IsWorker, Worker, WorkerAuthentication
from controlplane.api.parsing import Strict, validated
from controlplane.operations.actions import do_give_leave, do_record_report, load_connection
from controlplane.operations.spark_stages import STAGE_STATES, STAGES_MAX

INTEGER_MAX = 2**31 - 1


class OperationReportApi(APIView):
    authentication_classes = [WorkerAuthentication]
    permission_classes = [IsWorker]

    class OperationReport(Strict):
        class OperationProgress(Strict):
            done = serializers.IntegerField(min_value=0, max_value=INTEGER_MAX)
            total = serializers.IntegerField(min_value=0, max_value=INTEGER_MAX)
            unit = serializers.CharField(max_length=32, allow_blank=True)

        class SparkStage(Strict):
            id = serializers.IntegerField(min_value=0, max_value=INTEGER_MAX)
            name = serializers.CharField(max_length=80, allow_blank=True)
            state = serializers.ChoiceField(choices=STAGE_STATES)
            tasks = serializers.IntegerField(min_value=0, max_value=INTEGER_MAX)
            done = serializers.IntegerField(min_value=0, max_value=INTEGER_MAX)
            running = serializers.IntegerField(min_value=0, max_value=INTEGER_MAX, allow_null=True)
            failed = serializers.IntegerField(min_value=0, max_value=INTEGER_MAX, allow_null=True)
            bytes_read = serializers.IntegerField(min_value=0, max_value=2**62)
            elapsed_ms = serializers.IntegerField(min_value=0, max_value=2**53)

        operation_id = serializers.UUIDField()
        state = serializers.CharField(max_length=16)
        message = serializers.CharField(required=False, allow_blank=True, allow_null=True)
        progress = OperationProgress(required=False, allow_null=True)
        instant = serializers.CharField(max_length=17, required=False, allow_null=True)
        pid = serializers.IntegerField(
            min_value=1, max_value=INTEGER_MAX, required=False, allow_null=True
        )
        host = serializers.CharField(max_length=255, required=False, allow_blank=True)
        process = serializers.IntegerField(min_value=1, max_value=INTEGER_MAX, required=False)
        outcome = serializers.DictField(required=False, allow_null=True)
        settled = serializers.DictField(
            child=serializers.CharField(max_length=100_000), required=False, allow_null=True
        )
        stages = serializers.ListField(child=SparkStage(), required=False, max_length=STAGES_MAX)

    @extend_schema(operation_id="reports_operation", request=OperationReport, responses={204: None})
    def post(self, request: Request) -> Response:
        report = validated(self.OperationReport, request)
        _check_own(request, report["operation_id"])
        if not do_record_report(report):
            raise Http404(str(report["operation_id"]))
        return Response(status=204)


class OperationLeaveApi(APIView):
    authentication_classes = [WorkerAuthentication]
    permission_classes = [IsWorker]

    class LeaveRequest(Strict):
        operation_id = serializers.UUIDField()

    class GivenConnection(serializers.Serializer[dict[str, Any]]):
        name = serializers.CharField()
        kind = serializers.CharField()
        settings = serializers.DictField()

    @extend_schema(
        operation_id="reports_leave",
        request=LeaveRequest,
        responses={200: GivenConnection, 204: None},
    )
    def post(self, request: Request) -> Response:
        """With the settings of the connection that the operation uses, if it uses one."""
        operation_id = validated(self.LeaveRequest, request)["operation_id"]
        _check_own(request, operation_id)
        is_given = do_give_leave(operation_id)
        if is_given is None:
            raise Http404(str(operation_id))
        if not is_given:
            raise PermissionDenied("the user who requested this operation is no longer authorized")
        connection = load_connection(operation_id)
        if connection is None:
            return Response(status=204)
        return Response(connection, headers={"Cache-Control": "no-store"})


def _check_own(request: Request, operation_id: UUID) -> None:
    """Raises PermissionDenied for the operation of another worker."""
    assert isinstance(request.user, Worker), request.user
    if str(operation_id) != request.user.operation_id:
        raise PermissionDenied("this token is for another operation")
