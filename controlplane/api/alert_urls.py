"""Addresses of alerts, their rules and channels, and of health checks and their thresholds."""

from __future__ import annotations

from django.urls import path

from controlplane.api.v1 import alerts, channels, health

_TABLE = "tables/<slug:slug>/"

urlpatterns = [
    path("alerts/", alerts.AlertListApi.as_view(), name="alerts"),
    path("alerts/<int:alert_id>/", alerts.AlertApi.as_view(), name="alert"),
    path("alerts/<int:alert_id>/silence/", alerts.AlertSilenceApi.as_view(), name="alert_silence"),
    path("alert-rules/", alerts.AlertRuleListApi.as_view(), name="alert_rules"),
    path("alert-rules/<slug:check>/", alerts.AlertRuleApi.as_view(), name="alert_rule"),
    path("health-thresholds/", health.ThresholdListApi.as_view(), name="thresholds"),
    path("health-thresholds/<slug:threshold>/", health.ThresholdApi.as_view(), name="threshold"),
    path(f"{_TABLE}health/", health.TableHealthApi.as_view(), name="table_health"),
    path(
        f"{_TABLE}health/thresholds/",
        health.TableThresholdListApi.as_view(),
        name="table_thresholds",
    ),
    path(
        f"{_TABLE}health/thresholds/<slug:threshold>/",
        health.TableThresholdApi.as_view(),
        name="table_threshold",
    ),
    path("channels/", channels.ChannelListApi.as_view(), name="channels"),
    path("channels/messages/", channels.MessageListApi.as_view(), name="channel_messages"),
    path("channels/<int:channel_id>/", channels.ChannelApi.as_view(), name="channel"),
    path("channels/<int:channel_id>/test/", channels.ChannelTestApi.as_view(), name="channel_test"),
]
