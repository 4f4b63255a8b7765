"""Schedules of operations: list, make, change, pause, delete; next due times and last turns."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.auth import IsOperatorToWrite
from controlplane.api.if_match import if_unchanged
from controlplane.api.outputs import output, shown, shown_list
from controlplane.api.parsing import Strict, validated_query
from controlplane.api.request_bodies import read_body, takes
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.operations.ask import Requester
from controlplane.operations.descriptions.schedules import (
    CHANGE_SCHEDULE,
    CREATE_SCHEDULE,
    PAUSE_SCHEDULE,
)
from controlplane.operations.scheduled.actions import (
    do_change_schedule,
    do_delete_schedule,
    do_make_schedule,
    do_pause_schedule,
)
from controlplane.operations.scheduled.queries import (
    ScheduleRow,
    ScheduleRunRow,
    access_schedule,
    runs_of,
    schedule_row,
    schedules_of,
    visible_schedules,
)
from controlplane.operations.scheduled.run_days import DAYS_MAX, ScheduleDayRow, schedule_days
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.paging import PAGE_ROWS, PAGE_ROWS_MAX
from controlplane.tables.access import Permission, access_table


class ScheduleListApi(ApiView):
    sort_keys = ("name", "table_slug", "kind", "owner")

    @extend_schema(operation_id="schedules_list", responses=output(ScheduleRow)(many=True))
    def get(self, request: Request) -> Response:
        """Schedules of all tables that you see."""
        return Response(shown_list(visible_schedules(request.user)))


class ScheduleDaysApi(ApiView):
    """Runs of the schedules of all tables that you see, by schedule and day in UTC. Days without a
    run are left out.
    """

    class Query(Strict):
        days = serializers.IntegerField(
            min_value=1, max_value=DAYS_MAX, required=False, default=14, help_text="Up to today."
        )

    @extend_schema(
        operation_id="schedule_days",
        parameters=[Query],
        responses=output(ScheduleDayRow)(many=True),
    )
    def get(self, request: Request) -> Response:
        days = validated_query(self.Query, request)["days"]
        return Response(shown_list(schedule_days(request.user, days)))


class TableScheduleListApi(ApiView):
    permission_classes = [IsOperatorToWrite]
    sort_keys = ("name", "kind", "owner")

    @extend_schema(operation_id="table_schedules_list", responses=output(ScheduleRow)(many=True))
    def get(self, request: Request, slug: str) -> Response:
        table = access_table(request.user, slug, Permission.VIEW)
        return Response(shown_list(schedules_of(table, request.user)))

    @takes(CREATE_SCHEDULE, "schedules_create", ScheduleRow, status=201)
    def post(self, request: Request, slug: str) -> Response:
        """Each run has your rights, as they are then."""
        body = read_body(CREATE_SCHEDULE, request)
        table = access_table(request.user, slug, Permission.OPERATE)
        owner, reason = actor(request), body.pop("reason")
        schedule = do_make_schedule(
            table, ScheduleWish(**body), owner=owner, by=Requester.person(owner), reason=reason
        )
        return Response(shown(schedule_row(schedule, request.user)), status=201)


class ScheduleApi(ApiView):
    permission_classes = [IsOperatorToWrite]
    edited_fields = (
        *("name", "kind", "service", "parameters", "every_s", "cron", "time_zone"),
        *("after_schedule_id", "after_operation_id", "owner", "is_paused"),
    )

    @extend_schema(operation_id="schedules_read", responses=output(ScheduleRow))
    def get(self, request: Request, slug: str, schedule_id: UUID) -> Response:
        schedule = access_schedule(request.user, slug, schedule_id, Permission.VIEW)
        return Response(shown(schedule_row(schedule, request.user)))

    @if_unchanged
    @takes(CHANGE_SCHEDULE, "schedules_update", ScheduleRow, status=200)
    def put(self, request: Request, slug: str, schedule_id: UUID) -> Response:
        """From then on it runs in your name, with your rights."""
        body = read_body(CHANGE_SCHEDULE, request)
        schedule = access_schedule(request.user, slug, schedule_id, Permission.OPERATE)
        owner, reason = actor(request), body.pop("reason")
        changed = do_change_schedule(
            schedule, ScheduleWish(**body), owner=owner, by=Requester.person(owner), reason=reason
        )
        return Response(shown(schedule_row(changed, request.user)))

    @if_unchanged
    @extend_schema(operation_id="schedules_delete", responses={204: None})
    def delete(self, request: Request, slug: str, schedule_id: UUID) -> Response:
        """What it has asked for stays."""
        schedule = access_schedule(request.user, slug, schedule_id, Permission.OPERATE)
        do_delete_schedule(schedule, by=Requester.person(actor(request)))
        return Response(status=204)


class SchedulePauseApi(ApiView):
    permission_classes = [IsOperatorToWrite]

    @takes(PAUSE_SCHEDULE, "schedules_pause", ScheduleRow, status=200)
    def post(self, request: Request, slug: str, schedule_id: UUID) -> Response:
        """Pause it, or have it go on from now; what was due meanwhile is not made up for."""
        body = read_body(PAUSE_SCHEDULE, request)
        schedule = access_schedule(request.user, slug, schedule_id, Permission.OPERATE)
        paused = do_pause_schedule(schedule, by=Requester.person(actor(request)), **body)
        return Response(shown(schedule_row(paused, request.user)))


class ScheduleRunListApi(ApiView):
    class Query(Strict):
        limit = serializers.IntegerField(
            min_value=1, max_value=PAGE_ROWS_MAX, required=False, default=PAGE_ROWS
        )

    @extend_schema(
        operation_id="schedules_runs",
        parameters=[Query],
        responses=output(ScheduleRunRow)(many=True),
    )
    def get(self, request: Request, slug: str, schedule_id: UUID) -> Response:
        """Its turns, the newest first, also those at which nothing was asked for."""
        query = validated_query(self.Query, request)
        schedule = access_schedule(request.user, slug, schedule_id, Permission.VIEW)
        return Response(shown_list(runs_of(schedule, request.user, query["limit"])))
