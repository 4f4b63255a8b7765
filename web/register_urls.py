"""Addresses of the pages that make, register, change and unregister tables, and of uploads."""

from __future__ import annotations

from django.urls import path

from web.pages import table_create, table_settings, uploads

urlpatterns = [
    path("t/<slug:slug>/settings", table_settings.settings, name="settings"),
    path("t/<slug:slug>/settings/effective", table_settings.effective, name="effective-settings"),
    path("t/<slug:slug>/settings/masks", table_settings.masks, name="masks"),
    path("t/<slug:slug>/settings/unregister", table_settings.unregister, name="unregister"),
    path("tables/create", table_create.create, name="table-create"),
    path("t/<slug:slug>/write/upload", uploads.write_upload, name="table-upload"),
    path("tables/create/upload", uploads.table_create_upload, name="table-create-upload"),
    path("tables/register", table_settings.register, name="table-register"),
]
