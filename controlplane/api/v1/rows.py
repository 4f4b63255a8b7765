"""Rows of one table: of a moment, one row's history, what a commit or a time changed."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.outputs import output, shown
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.row_files import CONTENT_TYPES, FORMATS, RowFormat
from controlplane.rows.actions import (
    RowsWanted,
    do_compare_moments,
    do_export_rows,
    do_plan_rows,
    do_read_commit,
    do_read_history,
    do_read_rows,
)
from controlplane.rows.answers import ChangedRows, RowsPlan, RowVersions, TableRows
from controlplane.rows.cursors import CURSOR_CHARS_MAX
from controlplane.rows.jobs import ROWS_MAX
from controlplane.tables.access import Permission, access_table

_LIMIT = 100
_COLUMNS = [
    {"name": "id", "type": "bigint", "is_masked": False},
    {"name": "city", "type": "string", "is_masked": False},
]
_CHANGE = {
    "key": "17",
    "partition": "",
    "before": {"id": 17, "city": "Oslo"},
    "after": {"id": 17, "city": "Bergen"},
    "changed": ["city"],
}
_CUT = {"is_cut": True, "cut_by": "rows", "took_ms": 812}


_OF_COMMIT = {
    "changed_columns": {"city": 1},
    "groups": [
        {
            "partition": "",
            "file_id": "00000001-0",
            "inserts": 0,
            "updates": 240,
            "deletes": 0,
            "bytes": 20_480,
            "is_replaced": False,
        }
    ],
    "group_count": 1,
    "writer_counts": {"inserts": 0, "updates": 240, "deletes": 0},
    "stream_columns": [],
}
_OF_MOMENTS = {
    **_OF_COMMIT,
    "groups": [],
    "group_count": 0,
    "writer_counts": None,
}


def _example(**answer: Any) -> OpenApiExample:
    return OpenApiExample("Some rows", value=answer, response_only=True)


class Limited(Strict):
    limit = serializers.IntegerField(
        min_value=1,
        max_value=ROWS_MAX,
        required=False,
        default=_LIMIT,
        help_text="How many rows are answered at most; `is_cut` says whether there are more.",
    )


class RowsQuery(Limited):
    where = serializers.CharField(
        max_length=10_000,
        required=False,
        default="",
        help_text="`city = 'Oslo' AND value >= 10`: comparisons, IN, BETWEEN, LIKE, IS NULL, AND, "
        "OR, NOT. Not by a masked column.",
    )
    columns = serializers.CharField(
        max_length=10_000, required=False, default="", help_text="`a,b`; all where none is named."
    )
    as_of = serializers.CharField(
        max_length=40,
        required=False,
        default=None,
        help_text="A completion time: 17 digits, or ISO 8601 with a zone.",
    )
    order_by = serializers.CharField(
        max_length=1_000,
        required=False,
        default="",
        help_text="Sort by this column, nulls last; all rows that match are read. With `-` before "
        "its name, descending. Not by a masked or nested column.",
    )
    cursor = serializers.CharField(
        max_length=CURSOR_CHARS_MAX,
        required=False,
        default="",
        help_text="`next_cursor` of the page before, with the same filter.",
    )


class RowsFileQuery(RowsQuery):
    file_format = serializers.ChoiceField(choices=FORMATS, required=False, default="csv")


class HistoryQuery(Strict):
    key = serializers.CharField(max_length=1_000, help_text="The record key.")
    partition = serializers.CharField(
        max_length=1_000, required=False, default=None, allow_blank=True
    )


class MomentsQuery(Limited):
    earlier = serializers.CharField(max_length=40, help_text="As `as_of` of rows.")
    later = serializers.CharField(max_length=40, help_text="As `as_of` of rows.")


class CommitQuery(Limited):
    partition = serializers.CharField(
        max_length=1_000,
        required=False,
        default="",
        allow_blank=True,
        help_text="With `file_id`: the partition of the file group.",
    )
    file_id = serializers.CharField(
        max_length=300,
        required=False,
        default="",
        help_text="The changes in this file group alone.",
    )


class RowListApi(ApiView):
    """Read by a process with limits on memory and time, which stops at the limit."""

    @extend_schema(
        operation_id="rows_list",
        parameters=[RowsQuery],
        responses=output(TableRows),
        examples=[
            _example(
                as_of="20260131120000000",
                is_older=False,
                next_cursor="20260131120000000.1.0123456789abcdef",
                columns=_COLUMNS,
                rows=[
                    {
                        "key": "17",
                        "partition": "",
                        "commit": "20260131115959000",
                        "cells": [17, "Oslo"],
                    }
                ],
                slices_read=1,
                slices=8,
                **_CUT,
            )
        ],
    )
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        query = validated_query(RowsQuery, request)
        return Response(shown(do_read_rows(table, _wanted(query), by=actor(request))))


class RowExportApi(ApiView):
    """As a file; in CSV no text is a formula."""

    @extend_schema(
        operation_id="rows_export",
        parameters=[RowsFileQuery],
        responses={
            (200, media_type.partition(";")[0]): bytes for media_type in CONTENT_TYPES.values()
        },
    )
    def get(self, request: Request, slug: str) -> HttpResponse:
        table = access_table(request.user, slug, Permission.VIEW)
        query = validated_query(RowsFileQuery, request)
        file_format = query["file_format"]
        content = do_export_rows(table, _wanted(query), file_format, by=actor(request))
        return rows_download(content, file_format, f"{table.slug}-rows")


class RowsPlanQuery(Strict):
    where = serializers.CharField(
        max_length=10_000, required=False, default="", help_text="As `where` of rows."
    )
    as_of = serializers.CharField(
        max_length=40, required=False, default=None, help_text="As `as_of` of rows."
    )


class RowsPlanApi(ApiView):
    """What a read with a filter opens and leaves out, and the null shares of all columns by the
    statistics of base files. No row is read.
    """

    @extend_schema(
        operation_id="rows_plan",
        parameters=[RowsPlanQuery],
        responses=output(RowsPlan),
        examples=[
            OpenApiExample(
                "A plan",
                value={
                    "columns": [{**_COLUMNS[1], "nulls": 12, "null_pct": 1.2}],
                    "rows": 1_000,
                    "files_read": 2,
                    "files": 2,
                    "log_files": 0,
                    "slices_read": 1,
                    "slices": 2,
                    "bytes": 20_480,
                    "left_out": {"statistics of city": 1},
                    "listed": [
                        {
                            "partition": "",
                            "file_id": "00000001-0",
                            "left_out_by": "",
                            "groups_read": 1,
                            "groups": 4,
                            "logs": 0,
                            "bytes": 20_480,
                        }
                    ],
                    "took_ms": 410,
                },
                response_only=True,
            )
        ],
    )
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        query = validated_query(RowsPlanQuery, request)
        plan = do_plan_rows(table, query["where"], as_of=query["as_of"], by=actor(request))
        return Response(shown(plan))


class RowHistoryApi(ApiView):
    """Every version of one row that is known, newest first."""

    @extend_schema(
        operation_id="rows_history",
        parameters=[HistoryQuery],
        responses=output(RowVersions),
        examples=[
            _example(
                key="17",
                columns=_COLUMNS,
                versions=[
                    {
                        **_CHANGE,
                        "op": "updated",
                        "instant": "20260131115959000",
                        "completed_at": "20260131120000000",
                        "writer": "ingest",
                        "stream": "",
                        "operation_type": "upsert",
                        "operation": "0b2f6c1e-0a50-4c8e-8f0e-0d6c1d8f6a11",
                        "requested_by": "ada",
                    }
                ],
                is_cut=True,
                cut_by="cleaned",
                took_ms=640,
            )
        ],
    )
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        query = validated_query(HistoryQuery, request)
        versions = do_read_history(
            table, query["key"], partition=query["partition"], by=actor(request)
        )
        return Response(shown(versions))


class RowDifferencesApi(ApiView):
    """Rows that are other ones at the later moment than at the earlier."""

    @extend_schema(
        operation_id="rows_differences",
        parameters=[MomentsQuery],
        responses=output(ChangedRows),
        examples=[
            _example(columns=_COLUMNS, rows=[{**_CHANGE, "op": "updated"}], **_CUT, **_OF_MOMENTS)
        ],
    )
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        query = validated_query(MomentsQuery, request)
        return Response(shown(do_compare_moments(table, by=actor(request), **query)))


class InstantChangesApi(ApiView):
    """What one commit inserted, updated and deleted."""

    @extend_schema(
        operation_id="instant_changes",
        parameters=[CommitQuery],
        responses=output(ChangedRows),
        examples=[
            _example(columns=_COLUMNS, rows=[{**_CHANGE, "op": "updated"}], **_CUT, **_OF_COMMIT)
        ],
    )
    def get(self, request: Request, slug: str, requested_at: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        query = validated_query(CommitQuery, request)
        return Response(shown(do_read_commit(table, requested_at, by=actor(request), **query)))


def rows_download(content: bytes, file_format: RowFormat, name: str) -> HttpResponse:
    """A file of rows, which nobody keeps on the way."""
    response = HttpResponse(content, content_type=CONTENT_TYPES[file_format])
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.{file_format}"'
    response.headers["Cache-Control"] = "no-store"
    return response


def _wanted(query: dict[str, Any]) -> RowsWanted:
    return RowsWanted(
        where=query["where"],
        columns=[name.strip() for name in query["columns"].split(",") if name.strip()],
        as_of=query["as_of"],
        order_by=query["order_by"].removeprefix("-"),
        is_descending=query["order_by"].startswith("-"),
        limit=query["limit"],
        cursor=query["cursor"],
    )
