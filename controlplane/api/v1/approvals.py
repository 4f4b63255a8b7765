"""What awaits the approval of a second person, and which actions need it."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdminToWrite, IsGranterToWrite, IsViewer
from controlplane.api.documented_problems import NAMES_A_PLACE
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.operations.approvals.deciding import (
    Decider,
    awaited,
    check_decider,
    do_approve,
    do_decline,
)
from controlplane.operations.approvals.queries import (
    ApprovalDetail,
    ApprovalRow,
    approval_detail,
    approval_rows,
)
from controlplane.operations.approvals.rules import ApprovalRuleRow, do_set_rule, rule_rows
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.tables.access import Permission, access_table
from controlplane.tables.scopes import Scope, visible_scope


class ApprovalListApi(ApiView):
    sort_keys = ("requested_at", "expires_at", "action", "table_slug")

    class Query(Strict):
        state = serializers.ChoiceField(
            choices=["pending", "decided"], required=False, default="pending"
        )

    @extend_schema(
        operation_id="approvals_list", parameters=[Query], responses=output(ApprovalRow)(many=True)
    )
    def get(self, request: Request) -> Response:
        """What is pending, the oldest first; what was decided, the newest first. Up to 200."""
        state = validated_query(self.Query, request)["state"]
        rows = approval_rows(_decider(request), is_pending=state == "pending")
        return Response(shown_list(rows))


class ApprovalApi(ApiView):
    @extend_schema(operation_id="approvals_read", responses=output(ApprovalDetail))
    def get(self, request: Request, approval_id: UUID) -> Response:
        """For whoever may decide it, with the plan as it is now, which storage is read for."""
        return Response(shown(approval_detail(approval_id, _decider(request))))


class ApprovalApproveApi(ApiView):
    """By another admin of the table than whoever asked for it."""

    permission_classes = [IsViewer]  # The table of the operation says who may.
    throttle_scope = "service"

    class ApproveRequest(Strict):
        plan_hash = serializers.CharField(
            max_length=64, help_text="Of the plan that was asked for, looked at again."
        )
        reason = serializers.CharField(max_length=REASON_CHARS_MAX)

    @extend_schema(
        operation_id="approvals_approve",
        request=ApproveRequest,
        responses={202: output(ApprovalDetail)},
    )
    def post(self, request: Request, approval_id: UUID) -> Response:
        """It is queued in its requester's name. A plan that changed meanwhile ends it."""
        _check_decider(request, approval_id)
        body = validated(self.ApproveRequest, request)
        do_approve(approval_id, by=_decider(request), **body)
        return Response(shown(approval_detail(approval_id, _decider(request))), status=202)


class ApprovalDeclineApi(ApiView):
    """By another admin of the table than whoever asked for it."""

    permission_classes = [IsViewer]  # The table of the operation says who may.

    class DeclineRequest(Strict):
        reason = serializers.CharField(max_length=REASON_CHARS_MAX)

    @extend_schema(
        operation_id="approvals_decline",
        request=DeclineRequest,
        responses=output(ApprovalDetail),
    )
    def post(self, request: Request, approval_id: UUID) -> Response:
        """It ends as refused, and never runs."""
        _check_decider(request, approval_id)
        body = validated(self.DeclineRequest, request)
        do_decline(approval_id, by=_decider(request), **body)
        return Response(shown(approval_detail(approval_id, _decider(request))))


class NewRule(Strict):
    needs_approval = serializers.BooleanField(
        help_text="False takes away what was set here; a rule of a wider place holds all the same."
    )
    reason = serializers.CharField(max_length=REASON_CHARS_MAX)


class TableApprovalRuleListApi(ApiView):
    sort_keys = ("action", "title")

    @extend_schema(
        operation_id="approval_rules_table", responses=output(ApprovalRuleRow)(many=True)
    )
    def get(self, request: Request, slug: str) -> Response:
        """Every action that may need a second approver, as it is on this table."""
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(rule_rows(Scope(table=table))))


class TableApprovalRuleApi(ApiView):
    permission_classes = [IsAdminToWrite]

    @extend_schema(
        operation_id="approval_rules_set_table",
        request=NewRule,
        responses=output(ApprovalRuleRow),
    )
    def put(self, request: Request, slug: str, action: str) -> Response:
        body = validated(NewRule, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        row = do_set_rule(action, scope=Scope(table=table), by=actor(request), **body)
        return Response(shown(row))


class ApprovalRuleListApi(ApiView):
    sort_keys = ("action", "title")

    class Query(Strict):
        namespace = serializers.CharField(max_length=64, required=False, default="")

    @extend_schema(
        operation_id="approval_rules_list",
        parameters=[Query],
        extensions={NAMES_A_PLACE: True},
        responses=output(ApprovalRuleRow)(many=True),
    )
    def get(self, request: Request) -> Response:
        """As they are everywhere, or in a namespace in which you see a table."""
        scope = visible_scope(actor(request), validated_query(self.Query, request)["namespace"])
        return Response(shown_list(rule_rows(scope)))


class ApprovalRuleApi(ApiView):
    permission_classes = [IsGranterToWrite]  # The place says the rest.

    class NewWideRule(NewRule):
        namespace = serializers.CharField(
            max_length=64,
            required=False,
            allow_blank=True,
            default="",
            help_text="Empty: everywhere. Requires the admin role there.",
        )

    @extend_schema(
        operation_id="approval_rules_set",
        request=NewWideRule,
        responses=output(ApprovalRuleRow),
    )
    def put(self, request: Request, action: str) -> Response:
        body = validated(self.NewWideRule, request)
        scope = Scope(namespace=body.pop("namespace"))
        return Response(shown(do_set_rule(action, scope=scope, by=actor(request), **body)))


def _decider(request: Request) -> Decider:
    return Decider.person(actor(request))


def _check_decider(request: Request, approval_id: UUID) -> None:
    """Before its body is read: whoever may not decide learns nothing of what it lacks."""
    decider = _decider(request)
    check_decider(awaited(approval_id, decider).operation, decider)
