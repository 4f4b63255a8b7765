"""SQL over the tables whose rows the caller may read."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.outputs import output, shown
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import actor
from controlplane.sql.actions import SqlAnswer, do_run_sql
from controlplane.sql.limits import ROWS_DEFAULT, ROWS_MAX
from workers.sql.checking.limits import CHARACTERS_MAX


class SqlApi(APIView):
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

    @extend_schema(operation_id="sql", request=Statement, responses=output(SqlAnswer))
    def post(self, request: Request) -> Response:
        """Computed in a process with limits on memory, time and rows. A masked column is shown as
        its mark, and used for nothing else.
        """
        body = validated(self.Statement, request)
        answer = do_run_sql(body["statement"], by=actor(request), rows_max=body["limit"])
        return Response(shown(answer))
