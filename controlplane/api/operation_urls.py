"""Addresses of what becomes of an operation: again, its log, its approval and the rules of that."""

from __future__ import annotations

from django.urls import path

from controlplane.api.v1 import approvals, operation_again, operation_logs

_TABLE = "tables/<slug:slug>/"

urlpatterns = [
    path(
        "operations/<uuid:operation_id>/again/",
        operation_again.OperationAgainApi.as_view(),
        name="operation_again",
    ),
    path(
        "operations/<uuid:operation_id>/log/",
        operation_logs.OperationLogApi.as_view(),
        name="operation_log",
    ),
    path(
        "operations/<uuid:operation_id>/log/download/",
        operation_logs.OperationLogDownloadApi.as_view(),
        name="operation_log_download",
    ),
    path("approvals/", approvals.ApprovalListApi.as_view(), name="approvals"),
    path("approvals/<uuid:approval_id>/", approvals.ApprovalApi.as_view(), name="approval"),
    path(
        "approvals/<uuid:approval_id>/approve/",
        approvals.ApprovalApproveApi.as_view(),
        name="approval_approve",
    ),
    path(
        "approvals/<uuid:approval_id>/decline/",
        approvals.ApprovalDeclineApi.as_view(),
        name="approval_decline",
    ),
    path("approval-rules/", approvals.ApprovalRuleListApi.as_view(), name="approval_rules"),
    path(
        "approval-rules/<slug:action>/",
        approvals.ApprovalRuleApi.as_view(),
        name="approval_rule",
    ),
    path(
        f"{_TABLE}approval-rules/",
        approvals.TableApprovalRuleListApi.as_view(),
        name="table_approval_rules",
    ),
    path(
        f"{_TABLE}approval-rules/<slug:action>/",
        approvals.TableApprovalRuleApi.as_view(),
        name="table_approval_rule",
    ),
]
