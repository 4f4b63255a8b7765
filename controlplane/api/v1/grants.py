"""Roles in namespaces and on tables: list, give, take."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsGranterToWrite
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.request_bodies import read_body, takes
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.operations.descriptions.access import GRANT
from controlplane.tables.grants import (
    Granter,
    GrantRequest,
    GrantRow,
    do_grant,
    do_revoke,
    grant_shown_to,
    grants_shown_to,
)


class GrantListApi(ApiView):
    permission_classes = [IsGranterToWrite]
    sort_keys = ("user", "group", "role", "namespace", "table", "granted_at")

    @extend_schema(operation_id="grants_list", responses=output(GrantRow)(many=True))
    def get(self, request: Request) -> Response:
        """Those of the namespaces whose admin you are; all for auditors and admins everywhere."""
        return Response(shown_list(grants_shown_to(actor(request))))

    @takes(GRANT, "grants_create", GrantRow, status=201)
    def post(self, request: Request) -> Response:
        """In place of the role that the same user or group had at the same place."""
        body = read_body(GRANT, request)
        reason, by = body.pop("reason"), Granter.person(actor(request))
        return Response(shown(do_grant(GrantRequest(**body), by=by, reason=reason)), status=201)


class GrantApi(ApiView):
    permission_classes = [IsGranterToWrite]
    edited_fields = ("role", "granted_at")

    @extend_schema(operation_id="grants_read", responses=output(GrantRow))
    def get(self, request: Request, grant_id: int) -> Response:
        """One of those that the list shows you."""
        return Response(shown(grant_shown_to(actor(request), grant_id)))

    @if_unchanged
    @extend_schema(operation_id="grants_delete", responses={204: None})
    def delete(self, request: Request, grant_id: int) -> Response:
        do_revoke(grant_id, by=Granter.person(actor(request)))
        return Response(status=204)
