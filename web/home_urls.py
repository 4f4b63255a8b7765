"""Addresses of the pages over all tables, and of what a person chooses for himself."""

from __future__ import annotations

from django.urls import path

from web.pages import (
    all_schedules,
    home,
    node_settings,
    operations,
    preferences,
    tables,
    tables_bulk,
)

urlpatterns = [
    path("", home.home, name="home"),
    path("home/part", home.home_part, name="home-part"),
    path("home/hours", home.home_hours, name="home-hours"),
    path("tables/", tables.tables, name="tables"),
    path("tables/rows", tables.tables_rows, name="tables-rows"),
    path("tables/export", tables.tables_export, name="tables-export"),
    path("tables/bulk", tables_bulk.bulk, name="tables-bulk"),
    path("tables/tag", tables.tables_tag, name="tables-tag"),
    path("tables/columns", tables.columns_choose, name="columns-choose"),
    path("tables/views", tables.view_save, name="view-save"),
    path("t/<slug:slug>/pin", tables.table_pin, name="table-pin"),
    path("operations", operations.operations, name="operations"),
    path("operations/rows", operations.operations_rows, name="operations-rows"),
    path("operations/<uuid:operation_id>", operations.operation_by_id, name="operation-by-id"),
    path("t/<slug:slug>/operations", operations.table_operations, name="table-operations"),
    path("operations/export", operations.operations_export, name="operations-export"),
    path("schedules", all_schedules.all_schedules, name="all-schedules"),
    path("settings", node_settings.node_settings, name="node-settings"),
    path("preferences", preferences.preferences, name="preferences"),
    path("preferences/views/delete", preferences.view_delete, name="view-delete"),
    path("go", tables.go, name="go"),
]
