"""Sinks of a table: how each is, its participants, transactions and messages; start, stop and
relaunch.
"""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsAdmin, IsOperator, IsOperatorToWrite
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.request_bodies import read_body, takes
from controlplane.api.requests import actor, idempotency_key
from controlplane.api.views import ApiView
from controlplane.mirror.queries.sinks import (
    LetterCommitRow,
    ParticipantRow,
    TraceRow,
    TransactionRow,
    letter_commits,
    participants,
    sink_record,
    trace,
    transactions,
)
from controlplane.mirror.sink_letters import LetterPage, sink_letters
from controlplane.operations.actions import (
    do_relaunch_sink,
    do_request_replay,
    do_reset_sink,
    do_start_sink,
    do_stop_sink,
    plan_sink_reset,
)
from controlplane.operations.descriptions.sinks import (
    PLAN_RESET,
    RELAUNCH_SINK,
    REPLAY,
    RESET_SINK,
    START_SINK,
    STOP_SINK,
)
from controlplane.operations.queries import OperationDetail, operation_detail
from controlplane.operations.sink_board import (
    SinkSummary,
    letters_directory,
    sink_summary,
    sinks_board,
)
from controlplane.operations.sink_resets import SinkReset, SinkResetPlan
from controlplane.tables.access import Permission, access_table
from controlplane.tables.models import Table
from controlplane.tables.row_access import row_access

PARTICIPANTS_MAX = 1_000


class SinkListApi(ApiView):
    permission_classes = [IsOperatorToWrite]
    sort_keys = ("sink_id", "phase")

    @extend_schema(operation_id="sinks_list", responses=output(SinkSummary)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(sinks_board(table, is_whole=_is_whole(request, table))))

    @takes(START_SINK, "sinks_start", OperationDetail)
    def post(self, request: Request, slug: str) -> Response:
        body = read_body(START_SINK, request)
        table = access_table(request.user, slug, Permission.OPERATE)
        operation = do_start_sink(
            table,
            body.pop("sink_options"),
            by=actor(request),
            idempotency_key=idempotency_key(request),
            **body,
        )
        return Response(shown(operation_detail(operation.pk, request.user)), status=202)


class SinkApi(ApiView):
    @extend_schema(operation_id="sinks_read", responses=output(SinkSummary))
    def get(self, request: Request, slug: str, sink_id: str) -> Response:
        table = _table(request, slug)
        return Response(shown(sink_summary(table, sink_id, is_whole=_is_whole(request, table))))


class SinkParticipantListApi(ApiView):
    """By partition; a further page begins behind the last one of this."""

    sort_keys = ("partition", "lag", "seen_at")

    class Query(Strict):
        after = serializers.IntegerField(min_value=-1, required=False, default=-1)
        limit = serializers.IntegerField(
            min_value=1, max_value=PARTICIPANTS_MAX, required=False, default=PARTICIPANTS_MAX
        )

    @extend_schema(
        operation_id="sinks_participants",
        parameters=[Query],
        responses=output(ParticipantRow)(many=True),
    )
    def get(self, request: Request, slug: str, sink_id: str) -> Response:
        query = validated_query(self.Query, request)
        record = sink_record(_table(request, slug), sink_id)
        return Response(shown_list(participants(record, **query) if record else []))


class SinkTransactionListApi(ApiView):
    """The newest first."""

    @extend_schema(operation_id="sinks_transactions", responses=output(TransactionRow)(many=True))
    def get(self, request: Request, slug: str, sink_id: str) -> Response:
        table = _table(request, slug)
        record, is_whole = sink_record(table, sink_id), _is_whole(request, table)
        return Response(shown_list(transactions(record, is_whole=is_whole) if record else []))


class SinkTraceApi(ApiView):
    """Messages and transitions, oldest first."""

    @extend_schema(operation_id="sinks_trace", responses=output(TraceRow)(many=True))
    def get(self, request: Request, slug: str, sink_id: str) -> Response:
        table = _table(request, slug)
        record, is_whole = sink_record(table, sink_id), _is_whole(request, table)
        return Response(shown_list(trace(record, is_whole=is_whole) if record else []))


class SinkLetterListApi(ApiView):
    """The newest commits that left records out."""

    @extend_schema(operation_id="sinks_dead_letters", responses=output(LetterCommitRow)(many=True))
    def get(self, request: Request, slug: str, sink_id: str) -> Response:
        return Response(shown_list(letter_commits(_table(request, slug), sink_id)))


class SinkLetterApi(ApiView):
    """The records that one commit left out. Reads their files, now."""

    @extend_schema(operation_id="sinks_dead_letters_read", responses=output(LetterPage))
    def get(self, request: Request, slug: str, sink_id: str, requested_at: str) -> Response:
        table = _table(request, slug)
        directory = letters_directory(sink_summary(table, sink_id))
        letters = sink_letters(
            table,
            row_access(request.user, table),
            sink_id,
            requested_at,
            directory=directory,
        )
        if letters is None:
            raise Http404(f"{requested_at} has no dead letters of this sink")
        return Response(shown(letters))


class SinkReplayApi(ApiView):
    """Dead letters to their topic again, each once however often it is asked for."""

    permission_classes = [IsAdmin]

    @takes(REPLAY, "sinks_dead_letters_replay", OperationDetail)
    def post(self, request: Request, slug: str, sink_id: str) -> Response:
        body = read_body(REPLAY, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        operation = do_request_replay(
            table, sink_id, by=actor(request), idempotency_key=idempotency_key(request), **body
        )
        return Response(shown(operation_detail(operation.pk, request.user)), status=202)


class SinkResetPlanApi(ApiView):
    """Where the sink would go on, and what is read again or passed over by it."""

    permission_classes = [IsAdmin]

    @takes(PLAN_RESET, "sinks_reset_plan", SinkResetPlan, status=200)
    def post(self, request: Request, slug: str, sink_id: str) -> Response:
        body = read_body(PLAN_RESET, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        return Response(shown(plan_sink_reset(table, sink_id, to=body["to"])))


class SinkResetApi(ApiView):
    """One commit without rows, from which the sink goes on: done when this answers."""

    permission_classes = [IsAdmin]

    @takes(RESET_SINK, "sinks_reset", SinkReset, status=201)
    def post(self, request: Request, slug: str, sink_id: str) -> Response:
        body = read_body(RESET_SINK, request)
        table = access_table(request.user, slug, Permission.ADMINISTER)
        done = do_reset_sink(
            table,
            sink_id,
            to=body["to"],
            plan_hash=body["plan_hash"],
            typed_name=body["table_name"],
            reason=body["reason"],
            by=actor(request).get_username(),
            idempotency_key=idempotency_key(request),
        )
        return Response(shown(done), status=201)


class SinkStopApi(ApiView):
    """A request beside the table, which also reaches a sink that no operation runs."""

    permission_classes = [IsOperator]

    @takes(STOP_SINK, "sinks_stop", SinkSummary)
    def post(self, request: Request, slug: str, sink_id: str) -> Response:
        body = read_body(STOP_SINK, request)
        table = access_table(request.user, slug, Permission.OPERATE)
        is_hard = body["kind"] == "hard"
        by = actor(request).get_username()
        do_stop_sink(table, sink_id, by=by, is_hard=is_hard, reason=body["reason"])
        sink = sink_summary(table, sink_id, is_whole=_is_whole(request, table))
        return Response(shown(sink), status=202)


class SinkRelaunchApi(ApiView):
    """The newest operation of the sink once more, under the same options."""

    permission_classes = [IsOperator]

    @takes(RELAUNCH_SINK, "sinks_relaunch", OperationDetail)
    def post(self, request: Request, slug: str, sink_id: str) -> Response:
        body = read_body(RELAUNCH_SINK, request)
        table = access_table(request.user, slug, Permission.OPERATE)
        operation = do_relaunch_sink(
            table,
            sink_id,
            by=actor(request),
            reason=body["reason"],
            idempotency_key=idempotency_key(request),
        )
        return Response(shown(operation_detail(operation.pk, request.user)), status=202)


def _is_whole(request: Request, table: Table) -> bool:
    return row_access(request.user, table).sees_all


def _table(request: Request, slug: str) -> Table:
    return access_table(request.user, slug, Permission.VIEW)
