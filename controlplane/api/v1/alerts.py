"""Alerts of the tables that the caller may see, their rules and silences."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdminToWrite, IsViewer
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.monitoring.actions import (
    HOURS_MAX,
    do_change_rule,
    do_end_silence,
    do_silence,
)
from controlplane.monitoring.alert_rules import (
    FIRES,
    HOLD_MINUTES_MAX,
    WINDOW_MINUTES_DEFAULT,
    WINDOW_MINUTES_MAX,
    RuleRow,
    get_rule_row,
    list_rules,
)
from controlplane.monitoring.queries import AlertRow, get_alert_row, load_alert_board
from controlplane.monitoring.severities import SEVERITIES
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.tables.access import Permission, access_table


class AlertListApi(ApiView):
    sort_keys = ("fired_at", "resolved_at", "slug", "check", "severity")

    class Query(Strict):
        state = serializers.ChoiceField(
            choices=["firing", "silenced", "resolved"], required=False, default="firing"
        )

    @extend_schema(
        operation_id="alerts_list", parameters=[Query], responses=output(AlertRow)(many=True)
    )
    def get(self, request: Request) -> Response:
        """What is bad first, then what fires longest: up to 500 together with those that are
        silenced. `resolved` are up to 100 of the last day, the newest first.
        """
        state = validated_query(self.Query, request)["state"]
        board = load_alert_board(actor(request), timezone.now())
        rows = {"firing": board.firing, "silenced": board.silenced, "resolved": board.resolved}
        return Response(shown_list(rows[state]))


class AlertApi(ApiView):
    @extend_schema(operation_id="alerts_read", responses=output(AlertRow))
    def get(self, request: Request, alert_id: int) -> Response:
        return Response(shown(get_alert_row(actor(request), alert_id, timezone.now())))


class AlertSilenceApi(ApiView):
    permission_classes = [IsViewer]  # The table of the alert says who may.

    class NewSilence(Strict):
        hours = serializers.IntegerField(min_value=1, max_value=HOURS_MAX)
        reason = serializers.CharField(max_length=REASON_CHARS_MAX)
        reach = serializers.ChoiceField(
            choices=["table", "namespace", "everywhere"],
            required=False,
            default="table",
            help_text="The alert's table, all tables of its namespace, or all tables.",
        )
        every_check = serializers.BooleanField(required=False, default=False)

    @extend_schema(
        operation_id="alerts_silence", request=NewSilence, responses={201: output(AlertRow)}
    )
    def post(self, request: Request, alert_id: int) -> Response:
        """For so many hours, the check of this alert, or every check, as far as `reach` says. An
        operator's, there.
        """
        alert = get_alert_row(actor(request), alert_id, timezone.now())
        table = access_table(request.user, alert.slug, Permission.OPERATE)
        body = validated(self.NewSilence, request)
        do_silence(table=table, check=alert.check, by=actor(request), **body)
        row = get_alert_row(actor(request), alert_id, timezone.now())
        return Response(shown(row), status=201)

    @extend_schema(operation_id="alerts_unsilence", responses={204: None})
    def delete(self, request: Request, alert_id: int) -> Response:
        alert = get_alert_row(actor(request), alert_id, timezone.now())
        access_table(request.user, alert.slug, Permission.OPERATE)
        do_end_silence(alert_id=alert.id, by=actor(request))
        return Response(status=204)


class AlertRuleListApi(ApiView):
    sort_keys = ("check", "title")

    @extend_schema(operation_id="alert_rules_list", responses=output(RuleRow)(many=True))
    def get(self, request: Request) -> Response:
        """One for each health check and each kind of events, for all tables."""
        return Response(shown_list(list_rules()))


class AlertRuleApi(ApiView):
    permission_classes = [IsAdminToWrite]
    edited_fields = ("fires", "hold_minutes", "severity", "window_minutes")

    class ChangedRule(Strict):
        fires = serializers.ChoiceField(choices=list(FIRES))
        hold_minutes = serializers.IntegerField(
            min_value=0, max_value=HOLD_MINUTES_MAX, required=False, default=1
        )
        severity = serializers.ChoiceField(
            choices=list(SEVERITIES),
            required=False,
            allow_blank=True,
            default="",
            help_text="Of its alerts. Empty: critical where the check is bad, else warning.",
        )
        window_minutes = serializers.IntegerField(
            min_value=1,
            max_value=WINDOW_MINUTES_MAX,
            required=False,
            default=WINDOW_MINUTES_DEFAULT,
            help_text="Of events: how long one of them keeps its alert open.",
        )

    @extend_schema(operation_id="alert_rules_read", responses=output(RuleRow))
    def get(self, request: Request, check: str) -> Response:
        return Response(shown(get_rule_row(check)))

    @if_unchanged
    @extend_schema(
        operation_id="alert_rules_change", request=ChangedRule, responses=output(RuleRow)
    )
    def put(self, request: Request, check: str) -> Response:
        body = validated(self.ChangedRule, request)
        do_change_rule(check=check, by=actor(request), **body)
        return Response(shown(get_rule_row(check)))
