"""POST /api/v1/reports/operations: what a worker says about its own operation. A hint; the answer
is always quick.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.auth import IsWorker, Worker, WorkerAuthentication
from controlplane.api.parsing import Strict, validated
from controlplane.operations.actions import do_record_report

INTEGER_MAX = 2**31 - 1


class OperationReportApi(APIView):
    authentication_classes = [WorkerAuthentication]
    permission_classes = [IsWorker]

    class OperationReport(Strict):
        class OperationProgress(Strict):
            done = serializers.IntegerField(min_value=0, max_value=INTEGER_MAX)
            total = serializers.IntegerField(min_value=0, max_value=INTEGER_MAX)
            unit = serializers.CharField(max_length=32, allow_blank=True)

        operation_id = serializers.UUIDField()
        state = serializers.CharField(max_length=16)
        message = serializers.CharField(required=False, allow_blank=True, allow_null=True)
        progress = OperationProgress(required=False, allow_null=True)
        instant = serializers.CharField(max_length=17, required=False, allow_null=True)
        pid = serializers.IntegerField(
            min_value=1, max_value=INTEGER_MAX, required=False, allow_null=True
        )
        outcome = serializers.DictField(required=False, allow_null=True)

    @extend_schema(operation_id="reports_operation", request=OperationReport, responses={204: None})
    def post(self, request: Request) -> Response:
        report = validated(self.OperationReport, request)
        assert isinstance(request.user, Worker), request.user
        if str(report["operation_id"]) != request.user.operation_id:
            raise PermissionDenied("this token is for another operation")
        if not do_record_report(report):
            raise Http404(str(report["operation_id"]))
        return Response(status=204)
