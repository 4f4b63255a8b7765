"""Queries that people keep, and share within a namespace."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.sql.models import NAME_CHARS_MAX, NOTE_CHARS_MAX
from controlplane.sql.saved import (
    QueryWords,
    SavedQueryRow,
    do_change_query,
    do_delete_query,
    do_save_query,
    saved_queries,
    saved_query,
)
from workers.sql.checking.limits import CHARACTERS_MAX

_EXAMPLE = OpenApiExample(
    "A shared query",
    value={
        "name": "Trips by city",
        "statement": "SELECT city, count(*) AS n FROM rides GROUP BY city",
        "note": "Asked every Monday.",
        "namespace": "default",
    },
    request_only=True,
)


class QueryBody(Strict):
    name = serializers.CharField(max_length=NAME_CHARS_MAX)
    statement = serializers.CharField(max_length=CHARACTERS_MAX)
    note = serializers.CharField(
        max_length=NOTE_CHARS_MAX, required=False, default="", allow_blank=True
    )
    namespace = serializers.CharField(
        max_length=64,
        required=False,
        default="",
        allow_blank=True,
        help_text="Whoever sees a table of it sees the query; empty for yours alone.",
    )


class SavedQueryListApi(ApiView):
    """Yours and those shared with you, by name; 500 at most."""

    @extend_schema(operation_id="saved_queries_list", responses=output(SavedQueryRow)(many=True))
    def get(self, request: Request) -> Response:
        return Response(shown_list(saved_queries(actor(request))))

    @extend_schema(
        operation_id="saved_queries_create",
        request=QueryBody,
        responses={201: output(SavedQueryRow)},
        examples=[_EXAMPLE],
    )
    def post(self, request: Request) -> Response:
        words = QueryWords(**validated(QueryBody, request))
        return Response(shown(do_save_query(words, by=actor(request))), status=201)


class SavedQueryApi(ApiView):
    """One query; its owner changes it."""

    @extend_schema(operation_id="saved_queries_read", responses=output(SavedQueryRow))
    def get(self, request: Request, query_id: int) -> Response:
        return Response(shown(saved_query(actor(request), query_id)))

    @extend_schema(
        operation_id="saved_queries_change",
        request=QueryBody,
        responses=output(SavedQueryRow),
        examples=[_EXAMPLE],
    )
    def put(self, request: Request, query_id: int) -> Response:
        words = QueryWords(**validated(QueryBody, request))
        return Response(shown(do_change_query(query_id, words, by=actor(request))))

    @extend_schema(operation_id="saved_queries_delete", responses={204: None})
    def delete(self, request: Request, query_id: int) -> Response:
        do_delete_query(query_id, by=actor(request))
        return Response(status=204)
