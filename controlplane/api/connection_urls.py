"""Addresses of named connections."""

from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from controlplane.api.v1 import connections


class ConnectionConverter(StringConverter):
    regex = r"[a-z0-9][a-z0-9._-]{0,63}"


register_converter(ConnectionConverter, "connection")

_CONNECTION = "connections/<connection:name>/"

urlpatterns = [
    path("connections/", connections.ConnectionListApi.as_view(), name="connections"),
    path(_CONNECTION, connections.ConnectionApi.as_view(), name="connection"),
    path(
        f"{_CONNECTION}grants/",
        connections.ConnectionGrantsApi.as_view(),
        name="connection_grants",
    ),
    path(f"{_CONNECTION}test/", connections.ConnectionTestApi.as_view(), name="connection_test"),
]
