"""Addresses that monitoring asks; without a slash at the end, as those who ask expect them."""

from __future__ import annotations

from django.urls import path

from controlplane.monitoring import views

urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", views.metrics, name="metrics"),
]
