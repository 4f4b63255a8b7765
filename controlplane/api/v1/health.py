"""Health checks of a table, and the thresholds by which they judge."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdminToWrite, IsGranterToWrite
from controlplane.api.documented_problems import NAMES_A_PLACE
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.mirror.health_check import Check
from controlplane.monitoring.thresholds import (
    ThresholdRow,
    check_table_health,
    do_set_threshold,
    get_threshold_row,
    list_thresholds,
)
from controlplane.tables.access import Permission, access_table
from controlplane.tables.scopes import Scope, visible_scope

_EDITED = ("amount", "source", "set_by", "set_at")


class NewAmount(Strict):
    amount = serializers.FloatField(
        allow_null=True,
        help_text="Null takes away what was set here, and the next wider one holds.",
    )
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class _WideQuery(Strict):
    namespace = serializers.CharField(max_length=64, required=False, default="")


class TableHealthApi(ApiView):
    sort_keys = ("name", "verdict")

    @extend_schema(operation_id="health_checks", responses=output(Check)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """What needs a person first. `verdict` is bad, warn, quiet (not known) or good."""
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(check_table_health(table, timezone.now())))


class TableThresholdListApi(ApiView):
    sort_keys = ("name", "check", "set_at")

    @extend_schema(
        operation_id="health_table_thresholds", responses=output(ThresholdRow)(many=True)
    )
    def get(self, request: Request, slug: str) -> Response:
        """What holds for this table, and where it comes from."""
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(list_thresholds(Scope(table=table))))


class TableThresholdApi(ApiView):
    permission_classes = [IsAdminToWrite]
    edited_fields = _EDITED

    @extend_schema(operation_id="health_table_threshold", responses=output(ThresholdRow))
    def get(self, request: Request, slug: str, threshold: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown(get_threshold_row(threshold, Scope(table=table))))

    @if_unchanged
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


class ThresholdListApi(ApiView):
    sort_keys = ("name", "check", "set_at")

    @extend_schema(
        operation_id="health_thresholds",
        parameters=[_WideQuery],
        extensions={NAMES_A_PLACE: True},
        responses=output(ThresholdRow)(many=True),
    )
    def get(self, request: Request) -> Response:
        """What holds everywhere, or in a namespace in which you see a table."""
        scope = visible_scope(actor(request), validated_query(_WideQuery, request)["namespace"])
        return Response(shown_list(list_thresholds(scope)))


class ThresholdApi(ApiView):
    permission_classes = [IsGranterToWrite]  # The place says the rest.
    edited_fields = _EDITED

    class NewWideAmount(NewAmount):
        namespace = serializers.CharField(
            max_length=64,
            required=False,
            allow_blank=True,
            default="",
            help_text="Empty: everywhere. Requires the admin role there.",
        )

    @extend_schema(
        operation_id="health_threshold",
        parameters=[_WideQuery],
        responses=output(ThresholdRow),
    )
    def get(self, request: Request, threshold: str) -> Response:
        """What holds everywhere, or in a namespace in which you see a table."""
        scope = visible_scope(actor(request), self._namespace(request))
        return Response(shown(get_threshold_row(threshold, scope)))

    @if_unchanged
    @extend_schema(
        operation_id="health_set_threshold", request=NewWideAmount, responses=output(ThresholdRow)
    )
    def put(self, request: Request, threshold: str) -> Response:
        body = validated(self.NewWideAmount, request)
        scope = Scope(namespace=body.pop("namespace"))
        return Response(shown(do_set_threshold(threshold, scope=scope, by=actor(request), **body)))

    def _namespace(self, request: Request) -> str:
        """Where a change says it in its body, a look says it in its query."""
        if request.method == "PUT":
            return str(validated(self.NewWideAmount, request)["namespace"])
        return str(validated_query(_WideQuery, request)["namespace"])
