"""Addresses that workers report to, under /api/v1/."""

from __future__ import annotations

from django.urls import path, re_path

from controlplane.api.reports.logs import LogReportApi
from controlplane.api.reports.operations import OperationLeaveApi, OperationReportApi

urlpatterns = [
    path("reports/operations/leave/", OperationLeaveApi.as_view(), name="report_leave"),
    # Workers post without following redirects, so both spellings are answered.
    re_path(r"^reports/operations/?$", OperationReportApi.as_view(), name="report_operation"),
    re_path(r"^reports/operations/log/?$", LogReportApi.as_view(), name="report_log"),
]
