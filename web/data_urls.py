"""Addresses of rows: of a table, and of statements."""

from __future__ import annotations

from django.urls import path, re_path

from web.pages import data, sql, trends

_CHANGES = r"^t/(?P<slug>[-\w]+)/data/changes/(?P<requested_at>[0-9]{14}(?:[0-9]{3})?)"

urlpatterns = [
    path("t/<slug:slug>/data", data.data, name="data"),
    path("t/<slug:slug>/data/rows", data.data_rows, name="data-rows"),
    path("t/<slug:slug>/data/export", data.data_export, name="data-export"),
    path("t/<slug:slug>/data/filter", data.data_filter, name="data-filter"),
    path("t/<slug:slug>/data/plan", data.data_plan, name="data-plan"),
    path("t/<slug:slug>/data/plan/part", data.data_plan_part, name="data-plan-part"),
    path("t/<slug:slug>/data/row", data.row, name="data-row"),
    path("t/<slug:slug>/data/row/versions", data.row_versions, name="data-row-versions"),
    re_path(rf"{_CHANGES}$", data.changes, name="data-changes"),
    re_path(rf"{_CHANGES}/rows$", data.changes_rows, name="data-changes-rows"),
    path("t/<slug:slug>/data/compare", data.compare, name="data-compare"),
    path("t/<slug:slug>/data/compare/rows", data.compare_rows, name="data-compare-rows"),
    path("t/<slug:slug>/trends", trends.trends, name="trends"),
    path("sql", sql.sql, name="sql"),
    path("sql/cancel", sql.cancel, name="sql-cancel"),
    path("sql/export", sql.export, name="sql-export"),
    path("sql/saved", sql.save, name="sql-save"),
    path("sql/saved/<int:query_id>/delete", sql.delete, name="sql-delete"),
]
