"""Health checks of a table, and the thresholds by which they judge."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.auth import IsAdminToWrite, IsGranterToWrite
from controlplane.api.documented_problems import NAMES_A_PLACE
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated, validated_query
from controlplane.api.requests import actor
from controlplane.mirror.health_check import Check
from controlplane.monitoring.thresholds import (
    Scope,
    ThresholdRow,
    do_set_threshold,
    table_checks,
    threshold_rows,
    visible_scope,
)
from controlplane.tables.access import Permission, access_table


class NewAmount(Strict):
    amount = serializers.FloatField(
        allow_null=True,
        help_text="Null takes away what was set here, and the next wider one holds.",
    )
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class TableHealthApi(APIView):
    @extend_schema(operation_id="health_checks", responses=output(Check)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """What needs a person first. `verdict` is bad, warn, quiet (not known) or good."""
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(table_checks(table, timezone.now())))


class TableThresholdListApi(APIView):
    @extend_schema(
        operation_id="health_table_thresholds", responses=output(ThresholdRow)(many=True)
    )
    def get(self, request: Request, slug: str) -> Response:
        """What holds for this table, and where it comes from."""
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(threshold_rows(Scope(table=table))))


class TableThresholdApi(APIView):
    permission_classes = [IsAdminToWrite]

    @extend_schema(
        operation_id="health_set_table_threshold",
        request=NewAmount,
        responses=output(ThresholdRow),
    )
    def put(self, request: Request, slug: str, threshold: str) -> Response:
        body = validated(NewAmount, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        row = do_set_threshold(threshold, scope=Scope(table=table), by=actor(request), **body)
        return Response(shown(row))


class ThresholdListApi(APIView):
    class Query(Strict):
        namespace = serializers.CharField(max_length=64, required=False, default="")

    @extend_schema(
        operation_id="health_thresholds",
        parameters=[Query],
        extensions={NAMES_A_PLACE: True},
        responses=output(ThresholdRow)(many=True),
    )
    def get(self, request: Request) -> Response:
        """What holds everywhere, or in a namespace in which you see a table."""
        scope = visible_scope(actor(request), validated_query(self.Query, request)["namespace"])
        return Response(shown_list(threshold_rows(scope)))


class ThresholdApi(APIView):
    permission_classes = [IsGranterToWrite]  # The place says the rest.

    class NewWideAmount(NewAmount):
        namespace = serializers.CharField(
            max_length=64,
            required=False,
            allow_blank=True,
            default="",
            help_text="Empty: everywhere. Needs the role admin there.",
        )

    @extend_schema(
        operation_id="health_set_threshold", request=NewWideAmount, responses=output(ThresholdRow)
    )
    def put(self, request: Request, threshold: str) -> Response:
        body = validated(self.NewWideAmount, request)
        scope = Scope(namespace=body.pop("namespace"))
        return Response(shown(do_set_threshold(threshold, scope=scope, by=actor(request), **body)))
