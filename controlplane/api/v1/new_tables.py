"""Making tables: what a file or a statement suggests, and the table itself."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdmin
from controlplane.api.outputs import output, shown
from controlplane.api.parsing import Strict, validated
from controlplane.api.request_bodies import pop_given, read_body, takes
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.errors import InvalidRequest
from controlplane.operations.ask import Requester
from controlplane.operations.descriptions.tables import CREATE_TABLE
from controlplane.operations.table_creation.actions import do_create_table
from controlplane.operations.table_creation.definition import Column, NewTable
from controlplane.operations.table_creation.suggesting import (
    TableSuggestion,
    suggest_from_statement,
    suggest_table,
)
from controlplane.tables.queries import TableRow, table_row


class NewTableApi(ApiView):
    permission_classes = [IsAdmin]

    @takes(CREATE_TABLE, "tables_create", TableRow, status=201)
    def post(self, request: Request) -> Response:
        body = read_body(CREATE_TABLE, request)
        given = pop_given(request, body)
        body["columns"] = [Column(**column) for column in body["columns"]]
        by = Requester.person(actor(request))
        table = do_create_table(NewTable(**body), by=by, given=given)
        return Response(shown(table_row(table)), status=201)


class TableSuggestionApi(ApiView):
    permission_classes = [IsAdmin]

    class Question(Strict):
        path = serializers.CharField(
            max_length=700,
            required=False,
            default="",
            help_text="A .csv, .json or .parquet file, a folder, or a pattern of names such as "
            "/d/*.csv, below a source root, on the node or in a bucket. Or give a statement.",
        )
        missing = serializers.CharField(max_length=50, required=False, default="NA")
        load = serializers.DictField(
            required=False,
            default=dict,
            help_text="How the file is read, as a source has it: delimiter, encoding, null_words, "
            "time_zone, column_types, names and others.",
        )
        statement = serializers.CharField(
            max_length=20_000,
            required=False,
            default="",
            help_text="One SELECT over tables whose rows you may read.",
        )
        record_key = serializers.ListField(
            child=serializers.CharField(max_length=255),
            required=False,
            default=list,
            max_length=20,
            help_text="Tried before any other key.",
        )

    @extend_schema(
        operation_id="tables_suggest", request=Question, responses=output(TableSuggestion)
    )
    def post(self, request: Request) -> Response:
        body = validated(self.Question, request)
        key, path, statement = body["record_key"], body["path"], body["statement"]
        if bool(path) == bool(statement):
            raise InvalidRequest("expected either a file (path) or a statement")
        if statement:
            suggestion = suggest_from_statement(statement, by=actor(request), key=key)
        else:
            load = {"missing": body["missing"], **body["load"]}
            suggestion = suggest_table(path, by=actor(request), load=load, key=key)
        return Response(shown(suggestion))
