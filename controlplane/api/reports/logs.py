"""POST /api/v1/reports/operations/log: lines of the log of a worker's own operation, in batches."""

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
from controlplane.operations.actions import do_append_lines
from workers.reporting.stored_lines import LINES_MAX, LogLine, round_level

_AT_MS_MAX = 4_102_444_800_000
"""In 2100: a clock that is further on is broken."""


class LogReportApi(APIView):
    authentication_classes = [WorkerAuthentication]
    permission_classes = [IsWorker]

    class LogReport(Strict):
        class ReportedLine(Strict):
            number = serializers.IntegerField(min_value=0, max_value=2**62)
            at_ms = serializers.IntegerField(min_value=0, max_value=_AT_MS_MAX)
            level = serializers.IntegerField(min_value=0, max_value=100)
            source = serializers.CharField(max_length=200, trim_whitespace=False)  # type: ignore[assignment]  # the name of a base's attribute
            message = serializers.CharField(allow_blank=True, trim_whitespace=False)

        operation_id = serializers.UUIDField()
        host = serializers.CharField(max_length=255)
        stream = serializers.RegexField(r"^[a-z][a-z0-9-]{0,59}\.log\Z")
        attempt = serializers.IntegerField(min_value=0, max_value=1000)
        lines = serializers.ListField(child=ReportedLine(), max_length=LINES_MAX)

    @extend_schema(operation_id="reports_log", request=LogReport, responses={204: None})
    def post(self, request: Request) -> Response:
        report = validated(self.LogReport, request)
        assert isinstance(request.user, Worker), request.user
        if str(report["operation_id"]) != request.user.operation_id:
            raise PermissionDenied("this token is for another operation")
        lines = [
            LogLine(**{**line, "level": round_level(line["level"])}) for line in report["lines"]
        ]
        is_known = do_append_lines(
            report["operation_id"],
            lines,
            host=report["host"],
            stream=report["stream"],
            attempt=report["attempt"],
        )
        if not is_known:
            raise Http404(str(report["operation_id"]))
        return Response(status=204)
