"""Who reads rows, and which columns are masked: list, give, take, mask."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdminToWrite, IsGranterToWrite
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.request_bodies import read_body, takes
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.mirror.masking import MaskedColumns, do_mask_columns, masked_columns
from controlplane.operations.descriptions.access import GRANT_ROWS
from controlplane.operations.descriptions.tables import MASK_COLUMNS
from controlplane.tables.access import Permission, access_table
from controlplane.tables.grants import Granter
from controlplane.tables.row_grants import (
    RowGrantRequest,
    RowGrantRow,
    do_give_rows,
    do_take_rows,
    row_grant_shown_to,
    row_grants_shown_to,
)


class RowGrantListApi(ApiView):
    permission_classes = [IsGranterToWrite]
    sort_keys = ("user", "group", "right", "namespace", "table", "granted_at")

    @extend_schema(operation_id="row_grants_list", responses=output(RowGrantRow)(many=True))
    def get(self, request: Request) -> Response:
        """Those of the namespaces whose admin you are; all for auditors and admins everywhere."""
        return Response(shown_list(row_grants_shown_to(actor(request))))

    @takes(GRANT_ROWS, "row_grants_create", RowGrantRow, status=201)
    def post(self, request: Request) -> Response:
        """In place of the right that the same user or group had at the same place."""
        body = read_body(GRANT_ROWS, request)
        reason, by = body.pop("reason"), Granter.person(actor(request))
        given = do_give_rows(RowGrantRequest(**body), by=by, reason=reason)
        return Response(shown(given), status=201)


class RowGrantApi(ApiView):
    permission_classes = [IsGranterToWrite]
    edited_fields = ("right", "granted_at")

    @extend_schema(operation_id="row_grants_read", responses=output(RowGrantRow))
    def get(self, request: Request, grant_id: int) -> Response:
        """One of those that the list shows you."""
        return Response(shown(row_grant_shown_to(actor(request), grant_id)))

    @if_unchanged
    @extend_schema(operation_id="row_grants_delete", responses={204: None})
    def delete(self, request: Request, grant_id: int) -> Response:
        do_take_rows(grant_id, by=Granter.person(actor(request)))
        return Response(status=204)


class MaskedColumnsApi(ApiView):
    permission_classes = [IsAdminToWrite]
    edited_fields = ("columns",)

    @extend_schema(operation_id="masked_columns_read", responses=output(MaskedColumns))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown(masked_columns(table)))

    @if_unchanged
    @takes(MASK_COLUMNS, "masked_columns_set", MaskedColumns, status=200)
    def put(self, request: Request, slug: str) -> Response:
        body = read_body(MASK_COLUMNS, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        by = Granter.person(actor(request))
        return Response(shown(do_mask_columns(table, by=by, **body)))
