"""Addresses of uploaded files."""

from __future__ import annotations

from django.urls import path

from controlplane.api.v1 import uploads

urlpatterns = [
    path("uploads/", uploads.UploadListApi.as_view(), name="uploads"),
    path("uploads/<uuid:upload_id>/", uploads.UploadApi.as_view(), name="upload"),
]
