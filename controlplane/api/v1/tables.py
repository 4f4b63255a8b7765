"""Tables: list, register, one."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.auth import IsAdminToWrite
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import actor
from controlplane.tables.access import Permission, access_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import DEFAULT_NAMESPACE
from controlplane.tables.queries import TableRow, table_row, tables_overview


class TableListApi(APIView):
    permission_classes = [IsAdminToWrite]

    class Registration(Strict):
        location = serializers.CharField(max_length=700)
        slug = serializers.CharField(max_length=64)
        name = serializers.CharField(max_length=200, required=False, default="")
        namespace = serializers.CharField(max_length=64, required=False, default=DEFAULT_NAMESPACE)

    @extend_schema(operation_id="tables_list", responses=output(TableRow)(many=True))
    def get(self, request: Request) -> Response:
        return Response(shown_list(tables_overview(request.user)))

    @extend_schema(
        operation_id="tables_register", request=Registration, responses={201: output(TableRow)}
    )
    def post(self, request: Request) -> Response:
        body = validated(self.Registration, request)
        table = do_register_table(**body, by=actor(request))
        return Response(shown(table_row(table)), status=201)


class TableApi(APIView):
    @extend_schema(operation_id="tables_read", responses=output(TableRow))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown(table_row(table)))
