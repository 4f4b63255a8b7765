"""Named connections: Kafka clusters, buckets and databases that requests use by name."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdmin, IsAdminToWrite
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.connections.actions import (
    NAMESPACES_MAX,
    ConnectionTest,
    ConnectionWish,
    do_change_connection,
    do_create_connection,
    do_delete_connection,
    do_grant_connection,
    do_test_connection,
)
from controlplane.connections.models import NAME_CHARS_MAX
from controlplane.connections.queries import ConnectionRow, connection_row, connection_rows
from workers.connections import KINDS

_SECRET_CHARS_MAX = 4_000


class ConnectionSettings(Strict):
    kind = serializers.ChoiceField(choices=list(KINDS))
    settings = serializers.DictField(
        child=serializers.JSONField(),
        help_text="All settings but the secrets, such as `bootstrap_servers`; what is left out is "
        "absent afterwards.",
    )
    secrets = serializers.DictField(
        child=serializers.CharField(
            max_length=_SECRET_CHARS_MAX, allow_blank=True, trim_whitespace=False
        ),
        required=False,
        allow_null=True,
        default=None,
        help_text="Such as `password`; never shown again. All of them, or none: a change without "
        "this leaves the stored ones as they are, unless it changes the address.",
    )


class ConnectionListApi(ApiView):
    permission_classes = [IsAdminToWrite]
    sort_keys = ("name", "kind", "created_at")

    class NewConnection(ConnectionSettings):
        name = serializers.CharField(max_length=NAME_CHARS_MAX)

    @extend_schema(operation_id="connections_list", responses=output(ConnectionRow)(many=True))
    def get(self, request: Request) -> Response:
        """Return all of them to admins; to others those that are granted to a namespace where they
        operate a table, without their settings.
        """
        return Response(shown_list(connection_rows(actor(request))))

    @extend_schema(
        operation_id="connections_create",
        request=NewConnection,
        responses={201: output(ConnectionRow)},
    )
    def post(self, request: Request) -> Response:
        """No namespace may use it before it is granted."""
        wish = ConnectionWish(**validated(self.NewConnection, request))
        return Response(shown(do_create_connection(wish, by=actor(request))), status=201)


class ConnectionApi(ApiView):
    permission_classes = [IsAdminToWrite]
    edited_fields = ("kind", "settings", "namespaces", "changed_at")

    @extend_schema(operation_id="connections_read", responses=output(ConnectionRow))
    def get(self, request: Request, name: str) -> Response:
        return Response(shown(connection_row(actor(request), name)))

    @if_unchanged
    @extend_schema(
        operation_id="connections_change",
        request=ConnectionSettings,
        responses=output(ConnectionRow),
    )
    def put(self, request: Request, name: str) -> Response:
        """Replace all settings. A change of the address needs the secrets again."""
        wish = ConnectionWish(name=name, **validated(ConnectionSettings, request))
        return Response(shown(do_change_connection(wish, by=actor(request))))

    @if_unchanged
    @extend_schema(operation_id="connections_delete", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Refused while a schedule, a write or a sink uses it."""
        do_delete_connection(name, by=actor(request))
        return Response(status=204)


class ConnectionGrantsApi(ApiView):
    permission_classes = [IsAdmin]

    class ConnectionNamespaces(Strict):
        namespaces = serializers.ListField(
            child=serializers.CharField(max_length=64), max_length=NAMESPACES_MAX
        )

    @extend_schema(
        operation_id="connections_grant",
        request=ConnectionNamespaces,
        responses=output(ConnectionRow),
    )
    def put(self, request: Request, name: str) -> Response:
        """Tables of these namespaces may use it, and those of no others."""
        namespaces = validated(self.ConnectionNamespaces, request)["namespaces"]
        return Response(shown(do_grant_connection(name, namespaces, by=actor(request))))


class ConnectionTestApi(ApiView):
    permission_classes = [IsAdmin]

    @extend_schema(operation_id="connections_test", request=None, responses=output(ConnectionTest))
    def post(self, request: Request, name: str) -> Response:
        """Connects and signs in, for at most 15 s."""
        return Response(shown(do_test_connection(name, by=actor(request))))
