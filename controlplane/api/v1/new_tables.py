"""Making tables: what a file or a statement suggests, and the table itself."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdmin
from controlplane.api.outputs import output, shown
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import IDEMPOTENCY_KEY, actor, idempotency_key
from controlplane.api.views import ApiView
from controlplane.errors import InvalidRequest
from controlplane.operations.ask import Requester
from controlplane.operations.requesting import Given
from controlplane.operations.table_creation.actions import do_create_table
from controlplane.operations.table_creation.definition import (
    COLUMNS_MAX,
    TABLE_TYPES,
    Column,
    NewTable,
)
from controlplane.operations.table_creation.suggesting import (
    TableSuggestion,
    suggest_from_statement,
    suggest_table,
)
from controlplane.tables.models import DEFAULT_NAMESPACE
from controlplane.tables.queries import TableRow, table_row


class NewColumn(Strict):
    name = serializers.CharField(max_length=255)
    type = serializers.CharField(
        max_length=500, help_text="As CREATE TABLE names it: bigint, decimal(10,2), array<string>."
    )
    required = serializers.BooleanField(required=False, default=False)  # type: ignore[assignment]  # the name of a base's attribute


class NewTableApi(ApiView):
    permission_classes = [IsAdmin]

    class Creation(Strict):
        location = serializers.CharField(max_length=700)
        slug = serializers.CharField(max_length=64)
        name = serializers.CharField(max_length=200, required=False, default="")
        namespace = serializers.CharField(max_length=64, required=False, default=DEFAULT_NAMESPACE)
        columns = serializers.ListField(child=NewColumn(), min_length=1, max_length=COLUMNS_MAX)
        record_key = serializers.ListField(
            child=serializers.CharField(max_length=255), min_length=1, max_length=20
        )
        partition_by = serializers.ListField(
            child=serializers.CharField(max_length=255), required=False, default=list, max_length=20
        )
        ordering = serializers.CharField(
            max_length=255, required=False, default="", allow_blank=True
        )
        table_type = serializers.ChoiceField(choices=TABLE_TYPES, default="COPY_ON_WRITE")
        groups = serializers.CharField(
            max_length=20_000,
            required=False,
            default="",
            allow_blank=True,
            help_text="Column groups, as `hoodie.multistream.groups` takes them.",
        )
        reason = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)

    @extend_schema(
        operation_id="tables_create",
        request=Creation,
        parameters=[OpenApiParameter(IDEMPOTENCY_KEY, str, OpenApiParameter.HEADER)],
        responses={201: output(TableRow)},
    )
    def post(self, request: Request) -> Response:
        body = validated(self.Creation, request)
        given = Given(reason=body.pop("reason"), idempotency_key=idempotency_key(request))
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
            help_text="A .csv, .json or .parquet file below a source root, on the node or in a "
            "bucket. Either this or a statement.",
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
            raise InvalidRequest("name a file (path) or a statement, one of the two")
        if statement:
            suggestion = suggest_from_statement(statement, by=actor(request), key=key)
        else:
            load = {"missing": body["missing"], **body["load"]}
            suggestion = suggest_table(path, by=actor(request), load=load, key=key)
        return Response(shown(suggestion))
