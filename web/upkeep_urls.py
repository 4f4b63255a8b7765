"""Addresses of what keeps a table in shape: its services, savepoints and schedules."""

from __future__ import annotations

from django.urls import path

from web.pages import savepoints, schedules, table_service_settings, table_services

_SCHEDULE = "t/<slug:slug>/schedules/<uuid:schedule_id>"

urlpatterns = [
    path("t/<slug:slug>/services", table_services.services, name="services"),
    path(
        "t/<slug:slug>/services/parts/<slug:part>",
        table_services.services_part,
        name="services-part",
    ),
    path("t/<slug:slug>/services/run/<slug:service>", table_services.service, name="service"),
    path(
        "t/<slug:slug>/services/settings/<slug:service>",
        table_service_settings.setting,
        name="service-setting",
    ),
    path("t/<slug:slug>/savepoints", savepoints.savepoints, name="savepoints"),
    path("t/<slug:slug>/savepoints/rows", savepoints.savepoints_rows, name="savepoints-rows"),
    path("t/<slug:slug>/schedules", schedules.schedules, name="schedules"),
    path("t/<slug:slug>/schedules/rows", schedules.schedules_rows, name="schedules-rows"),
    path("t/<slug:slug>/schedules/new", schedules.schedule_new, name="schedule-new"),
    path(_SCHEDULE, schedules.schedule, name="schedule"),
    path(f"{_SCHEDULE}/pause", schedules.schedule_pause, name="schedule-pause"),
    path(f"{_SCHEDULE}/delete", schedules.schedule_delete, name="schedule-delete"),
]
