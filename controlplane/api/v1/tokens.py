"""Tokens: create (the only moment one is shown), list, revoke."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts.access_levels import ADMINISTER, SCOPES
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.people.actions.tokens import (
    NAME_CHARS_MAX,
    PLACES_MAX,
    TokenRequest,
    do_create_token,
    do_revoke_token,
)
from controlplane.people.queries.tokens import TokenRow, list_user_tokens, list_visible_tokens
from controlplane.tables.grants import Granter


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    id: str
    token: str
    """Shown here and never again."""
    scope: str
    expiry: datetime | None


class TokenListApi(ApiView):
    sort_keys = ("name", "user", "created", "expiry", "last_used_at")

    class TokenListQuery(Strict):
        everybody = serializers.BooleanField(
            default=False, help_text="Of all people, for auditors and admins; others see their own."
        )

    class NewTokenRequest(Strict):
        name = serializers.CharField(
            max_length=NAME_CHARS_MAX, required=False, default="", allow_blank=True
        )
        days = serializers.IntegerField(
            min_value=1,
            max_value=settings.SLUICE_TOKEN_DAYS_MAX,
            default=settings.SLUICE_TOKEN_DAYS,
        )
        scope = serializers.ChoiceField(
            choices=SCOPES, default=ADMINISTER, help_text="Never more than its owner may."
        )
        namespaces = serializers.ListField(
            child=serializers.CharField(max_length=64), max_length=PLACES_MAX, default=list
        )
        tables = serializers.ListField(
            child=serializers.CharField(max_length=80),
            max_length=PLACES_MAX,
            default=list,
            help_text="Slugs. Without any and without namespaces it holds wherever its owner may.",
        )

    @extend_schema(
        operation_id="tokens_list",
        parameters=[TokenListQuery],
        responses=output(TokenRow)(many=True),
    )
    def get(self, request: Request) -> Response:
        query = validated_query(self.TokenListQuery, request)
        rows = list_visible_tokens if query["everybody"] else list_user_tokens
        return Response(shown_list(rows(actor(request))))

    @extend_schema(
        operation_id="tokens_create", request=NewTokenRequest, responses={201: output(NewToken)}
    )
    def post(self, request: Request) -> Response:
        """From a session: a token makes no token."""
        body = validated(self.NewTokenRequest, request)
        wanted = TokenRequest(**body | {key: tuple(body[key]) for key in ("namespaces", "tables")})
        user = actor(request)
        row, token = do_create_token(user, wanted, by=user.get_username())
        new = NewToken(id=row.id, token=token, scope=row.scope, expiry=row.expiry)
        response = Response(shown(new), status=201)
        response["Cache-Control"] = "no-store"
        return response


class TokenApi(ApiView):
    @extend_schema(operation_id="tokens_revoke", responses={204: None})
    def delete(self, request: Request, token_key: str) -> Response:
        """One's own; for auditors and admins anybody's."""
        do_revoke_token(token_key, by=Granter.person(actor(request)))
        return Response(status=204)
