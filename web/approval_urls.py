"""Addresses of the pages of approvals and of the rules that want them."""

from __future__ import annotations

from django.urls import path

from web.pages import approvals

urlpatterns = [
    path("approvals", approvals.approvals, name="approvals"),
    path("approvals/rules", approvals.approval_rules, name="approval-rules"),
    path("approvals/<uuid:approval_id>", approvals.approval, name="approval"),
    path("t/<slug:slug>/approvals", approvals.table_approval_rules, name="table-approval-rules"),
]
