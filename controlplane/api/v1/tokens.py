"""One's own tokens: create (the only moment it is shown), list, revoke."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.actions import DAYS_DEFAULT, DAYS_MAX, do_create_token, do_revoke_token
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated
from controlplane.api.queries import tokens_of
from controlplane.api.requests import actor


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    id: str
    """The token's first characters."""
    created: datetime
    expiry: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    id: str
    token: str
    expiry: datetime | None


class TokenListApi(APIView):
    class TokenRequest(Strict):
        days = serializers.IntegerField(min_value=1, max_value=DAYS_MAX, default=DAYS_DEFAULT)

    @extend_schema(operation_id="tokens_list", responses=output(TokenRow)(many=True))
    def get(self, request: Request) -> Response:
        rows = [
            TokenRow(id=token.token_key, created=token.created, expiry=token.expiry)
            for token in tokens_of(actor(request))
        ]
        return Response(shown_list(rows))

    @extend_schema(
        operation_id="tokens_create", request=TokenRequest, responses={201: output(NewToken)}
    )
    def post(self, request: Request) -> Response:
        body = validated(self.TokenRequest, request)
        user = actor(request)
        row, token = do_create_token(user, days=body["days"], by=user.get_username())
        new = NewToken(id=row.token_key, token=token, expiry=row.expiry)
        return Response(shown(new), status=201)


class TokenApi(APIView):
    @extend_schema(operation_id="tokens_revoke", responses={204: None})
    def delete(self, request: Request, token_key: str) -> Response:
        user = actor(request)
        if not do_revoke_token(user, token_key, by=user.get_username()):
            raise Http404(token_key)
        return Response(status=204)
