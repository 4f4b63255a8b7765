"""Roles in namespaces and on tables: list, give, take."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.accounts.role_names import GRANTED
from controlplane.api.auth import IsGranterToWrite
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import actor
from controlplane.tables.grants import (
    Granter,
    GrantRequest,
    GrantRow,
    do_grant,
    do_revoke,
    grants_shown_to,
)


class GrantListApi(APIView):
    permission_classes = [IsGranterToWrite]

    class NewGrant(Strict):
        role = serializers.ChoiceField(choices=GRANTED)
        user = serializers.CharField(max_length=150, required=False, default="")
        group = serializers.CharField(
            max_length=150, required=False, default="", help_text="Of people, not of a role."
        )
        namespace = serializers.CharField(max_length=64, required=False, default="")
        table = serializers.CharField(
            max_length=64, required=False, default="", help_text="The table's slug."
        )
        reason = serializers.CharField(max_length=500, required=False, default="")

    @extend_schema(operation_id="grants_list", responses=output(GrantRow)(many=True))
    def get(self, request: Request) -> Response:
        """Those of the namespaces whose admin you are; all for auditors and admins everywhere."""
        return Response(shown_list(grants_shown_to(actor(request))))

    @extend_schema(
        operation_id="grants_create", request=NewGrant, responses={201: output(GrantRow)}
    )
    def post(self, request: Request) -> Response:
        """In place of the role that the same user or group had at the same place."""
        body = validated(self.NewGrant, request)
        reason, by = body.pop("reason"), Granter.person(actor(request))
        return Response(shown(do_grant(GrantRequest(**body), by=by, reason=reason)), status=201)


class GrantApi(APIView):
    permission_classes = [IsGranterToWrite]

    @extend_schema(operation_id="grants_delete", responses={204: None})
    def delete(self, request: Request, grant_id: int) -> Response:
        do_revoke(grant_id, by=Granter.person(actor(request)))
        return Response(status=204)
