"""Addresses of the pages of alerts."""

from __future__ import annotations

from django.urls import path

from web.pages import alerts, channels, thresholds

urlpatterns = [
    path("alerts", alerts.alerts, name="alerts"),
    path("alerts/rows", alerts.alerts_rows, name="alerts-rows"),
    path("alerts/rules", alerts.alert_rules, name="alert-rules"),
    path("alerts/rules/<slug:check>", alerts.alert_rule, name="alert-rule"),
    path("alerts/thresholds", thresholds.thresholds, name="thresholds"),
    path("t/<slug:slug>/thresholds", thresholds.table_thresholds, name="table-thresholds"),
    path("alerts/channels", channels.channels, name="channels"),
    path("alerts/channels/messages", channels.channel_messages, name="channel-messages"),
    path("alerts/channels/new", channels.channel_new, name="channel-new"),
    path("alerts/channels/<int:channel_id>", channels.channel_change, name="channel-change"),
    path("alerts/channels/<int:channel_id>/test", channels.channel_test, name="channel-test"),
    path("alerts/channels/<int:channel_id>/delete", channels.channel_delete, name="channel-delete"),
    path("alerts/<int:alert_id>/silence", alerts.silence, name="alert-silence"),
    path("alerts/<int:alert_id>/unsilence", alerts.unsilence, name="alert-unsilence"),
]
