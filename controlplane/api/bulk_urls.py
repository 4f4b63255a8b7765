"""Addresses of what is done to several at once."""

from __future__ import annotations

from django.urls import path

from controlplane.api.v1 import bulk

urlpatterns = [
    path("bulk/cancel/", bulk.BulkCancelApi.as_view(), name="bulk_cancel"),
    path("bulk/services/", bulk.BulkServiceApi.as_view(), name="bulk_service"),
    path("bulk/silence/", bulk.BulkSilenceApi.as_view(), name="bulk_silence"),
    path("bulk/tags/", bulk.BulkTagsApi.as_view(), name="bulk_tags"),
    path("bulk/tables/", bulk.BulkTablesApi.as_view(), name="bulk_tables"),
]
