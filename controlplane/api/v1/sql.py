"""SQL over the tables whose rows the caller may read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.list_files import file_response
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.errors import InvalidRequest
from controlplane.row_files import (
    CONTENT_TYPES,
    FORMATS,
    Column,
    RowFormat,
    parquet_pieces,
    row_file,
)
from controlplane.sql.actions import ReadRows, SqlAnswer, do_read_rows, do_run_sql
from controlplane.sql.cells import cells
from controlplane.sql.limits import ROWS_DEFAULT, ROWS_MAX
from controlplane.sql.runs import (
    CancelledRun,
    StatementRunRow,
    do_cancel_run,
    statement_runs,
)
from workers.sql.checking.limits import CHARACTERS_MAX

CUT_BY = "Sluice-Cut-By"


class SqlApi(ApiView):
    changes_nothing = True

    class Statement(Strict):
        statement = serializers.CharField(
            max_length=CHARACTERS_MAX,
            help_text="One SELECT in Spark's spelling; tables go by slug, or by namespace.slug.",
        )
        limit = serializers.IntegerField(
            min_value=1,
            max_value=ROWS_MAX,
            default=ROWS_DEFAULT,
            help_text="How many rows are answered at most.",
        )
        file_format = serializers.ChoiceField(
            choices=FORMATS,
            required=False,
            default=None,
            allow_null=True,
            help_text="The rows as a file; the header `Sluice-Cut-By` says what cut it off: "
            "`rows`, `bytes`, or nothing.",
        )
        timeout_s = serializers.FloatField(
            min_value=0.5,
            max_value=600,
            required=False,
            default=None,
            help_text="After this it is ended; never later than the node would.",
        )
        run_id = serializers.CharField(
            max_length=64,
            required=False,
            default="",
            allow_blank=True,
            help_text="An id of yours, 8 to 64 letters, digits and hyphens: `sql/cancel/` with it "
            "ends the statement.",
        )

    @extend_schema(
        operation_id="sql",
        request=Statement,
        responses={
            (200, "application/json"): output(SqlAnswer),
            **{(200, kind.partition(";")[0]): bytes for kind in CONTENT_TYPES.values()},
        },
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Computed in a process with limits on memory, time and rows. A masked column is shown as
        its mark, and used for nothing else.
        """
        body = validated(self.Statement, request)
        statement, as_format = body["statement"], body["file_format"]
        if as_format is None:
            return Response(shown(do_run_sql(statement, by=actor(request), **_bounds(body))))
        read = do_read_rows(statement, by=actor(request), **_bounds(body))
        pieces, kind = _pieces(read, as_format), CONTENT_TYPES[as_format]
        response = file_response(request, pieces, content_type=kind, name=f"rows.{as_format}")
        response.headers[CUT_BY] = read.cut_by
        return response


def _pieces(read: ReadRows, as_format: RowFormat) -> Iterator[bytes]:
    """Raises InvalidRequest where JSON or Parquet could not tell two columns apart."""
    names = read.rows.column_names
    if as_format != "csv" and len(set(names)) < len(names):
        raise InvalidRequest("column names must be unique: rename one with AS", columns=names)
    if as_format == "parquet":
        return parquet_pieces(read.rows.schema, [read.rows])
    columns = [Column(name, pa.string()) for name in names]
    return row_file(as_format, columns, [cells(read.rows)])


def _bounds(body: dict[str, Any]) -> dict[str, Any]:
    return {"rows_max": body["limit"], "wall_s": body["timeout_s"], "run_id": body["run_id"]}


class SqlCancelApi(ApiView):
    changes_nothing = True

    class RunId(Strict):
        run_id = serializers.CharField(max_length=64)

    @extend_schema(operation_id="sql_cancel", request=RunId, responses=output(CancelledRun))
    def post(self, request: Request) -> Response:
        """End your running statement that was sent with this `run_id`."""
        run_id = validated(self.RunId, request)["run_id"]
        return Response(shown(CancelledRun(was_running=do_cancel_run(run_id, by=actor(request)))))


class SqlRunListApi(ApiView):
    @extend_schema(operation_id="sql_runs", responses=output(StatementRunRow)(many=True))
    def get(self, request: Request) -> Response:
        """Your own statements, newest first; 200 at most."""
        return Response(shown_list(statement_runs(actor(request))))
