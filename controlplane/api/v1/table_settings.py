"""Endpoint of the options of a table with their values and sources."""

from __future__ import annotations

import os

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.outputs import output, shown_list
from controlplane.api.views import ApiView
from controlplane.node.table_settings import TableSettingRow, load_table_settings
from controlplane.tables.access import Permission, access_table


class TableSettingListApi(ApiView):
    """Options of the table, of writes that name no other value, and of its services. The source is
    a property of the table, a setting of the service, a setting of the node, or the default.
    """

    @extend_schema(operation_id="table_settings_list", responses=output(TableSettingRow)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(load_table_settings(table, os.environ)))
