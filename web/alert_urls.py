"""Addresses of the pages of alerts."""

from __future__ import annotations

from django.urls import path

from web.pages import alerts

urlpatterns = [
    path("alerts", alerts.alerts, name="alerts"),
    path("alerts/rows", alerts.alerts_rows, name="alerts-rows"),
    path("alerts/rules", alerts.alert_rules, name="alert-rules"),
    path("alerts/rules/<slug:check>", alerts.alert_rule, name="alert-rule"),
    path("alerts/<int:alert_id>/silence", alerts.silence, name="alert-silence"),
    path("alerts/<int:alert_id>/unsilence", alerts.unsilence, name="alert-unsilence"),
]
