"""Addresses of the pages of named connections."""

from __future__ import annotations

from django.urls import path, re_path

from web.pages import connections

_ONE = r"^connections/(?P<name>[a-z0-9][a-z0-9._-]{0,63})"

urlpatterns = [
    path("connections", connections.connections, name="connections"),
    path("connections/new/", connections.connection_new, name="connection-new"),
    re_path(rf"{_ONE}$", connections.connection_change, name="connection-change"),
    re_path(rf"{_ONE}/grants$", connections.connection_grants, name="connection-grants"),
    re_path(rf"{_ONE}/test$", connections.connection_test, name="connection-test"),
    re_path(rf"{_ONE}/delete$", connections.connection_delete, name="connection-delete"),
]
