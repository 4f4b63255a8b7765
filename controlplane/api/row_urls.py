"""Addresses of a table's rows, trends and settings, of statements, and of saved queries."""

from __future__ import annotations

from django.urls import path

from controlplane.api.v1 import rows, saved_queries, sql, table_settings, trends

_TABLE = "tables/<slug:slug>/"

urlpatterns = [
    path(f"{_TABLE}rows/", rows.RowListApi.as_view(), name="rows"),
    path(f"{_TABLE}rows/export/", rows.RowExportApi.as_view(), name="rows_export"),
    path(f"{_TABLE}rows/plan/", rows.RowsPlanApi.as_view(), name="rows_plan"),
    path(f"{_TABLE}rows/history/", rows.RowHistoryApi.as_view(), name="row_history"),
    path(f"{_TABLE}rows/differences/", rows.RowDifferencesApi.as_view(), name="row_differences"),
    path(f"{_TABLE}settings/", table_settings.TableSettingListApi.as_view(), name="table_settings"),
    path(f"{_TABLE}trends/", trends.TrendsApi.as_view(), name="trends"),
    path("sql/", sql.SqlApi.as_view(), name="sql"),
    path("sql/cancel/", sql.SqlCancelApi.as_view(), name="sql_cancel"),
    path("sql/runs/", sql.SqlRunListApi.as_view(), name="sql_runs"),
    path("saved-queries/", saved_queries.SavedQueryListApi.as_view(), name="saved_queries"),
    path(
        "saved-queries/<int:query_id>/", saved_queries.SavedQueryApi.as_view(), name="saved_query"
    ),
]
