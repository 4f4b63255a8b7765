"""Several of a kind in one request: cancel operations, silence alerts, run a table service on
several tables, register several tables, tag several tables.

The form of the whole is judged before the first effect. Then each member is judged by the action
that stands behind its own address, one after the other, each in its own transaction and with its
own row in the audit: what is refused to one holds up no other. The answer is 200 and says for each
what its own address would have answered. Tags alone are changed on all tables or on none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import ScopedRateThrottle

from controlplane.api.auth import IsAdminToWrite
from controlplane.api.errors import ANSWERED, answer
from controlplane.api.outputs import output, shown
from controlplane.api.parsing import Strict, validated
from controlplane.api.request_bodies import build_body, to_serializer_field
from controlplane.api.requests import IDEMPOTENCY_KEY, actor, idempotency_key
from controlplane.api.v1.table_services import ServiceRunApi
from controlplane.api.views import ApiView
from controlplane.errors import InvalidRequest
from controlplane.monitoring.actions import HOURS_MAX, do_silence
from controlplane.monitoring.queries import get_alert_row
from controlplane.operations.actions import do_request_cancel, do_request_service, permission_of
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.descriptions.field import NEEDED_REASON, REASON
from controlplane.operations.descriptions.services import SERVICE
from controlplane.operations.descriptions.tables import REGISTER_TABLE
from controlplane.operations.permissions import is_destructive
from controlplane.operations.queries import access_operation
from controlplane.operations.table_changes.tagging import TaggedTables, do_tag_tables
from controlplane.tables.access import Permission, access_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.names import TAGS_CHARS_MAX

MEMBERS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOutcome:
    """What became of one member."""

    member: str
    """As the request names it: an operation, an alert, a table's slug."""
    status: int
    """What its own address would have answered."""
    code: str
    """Of the problem; empty where there is none."""
    detail: str
    values: Mapping[str, Any]
    operation_id: UUID | None
    """What was asked for, or what is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAnswer:
    """In the order of the request."""

    done: int
    refused: int
    outcomes: list[MemberOutcome]


class _Once(serializers.ListField):
    """1 to `MEMBERS_MAX` members, none of them twice."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_length=1, max_length=MEMBERS_MAX, **options)

    def to_internal_value(self, data: Any) -> Any:
        members = super().to_internal_value(data)
        if len(set(members)) < len(members):
            raise serializers.ValidationError("every member must be listed once")
        return members


class BulkCancelApi(ApiView):
    class BulkCancel(Strict):
        operations = _Once(child=serializers.UUIDField())
        reason = to_serializer_field(REASON)

    @extend_schema(
        operation_id="bulk_cancel", request=BulkCancel, responses={200: output(BulkAnswer)}
    )
    def post(self, request: Request) -> Response:
        """An operator's, on the table of each operation."""
        body = validated(self.BulkCancel, request)

        def cancel(operation_id: UUID) -> UUID:
            operation = access_operation(request.user, operation_id, Permission.OPERATE)
            do_request_cancel(operation=operation, by=actor(request), reason=body["reason"])
            return operation_id

        return _answered(request, body["operations"], cancel, status=202)


class BulkSilenceApi(ApiView):
    class BulkSilence(Strict):
        alerts = _Once(child=serializers.IntegerField(min_value=1, max_value=2**63 - 1))
        hours = serializers.IntegerField(min_value=1, max_value=HOURS_MAX)
        reason = serializers.CharField(max_length=REASON_CHARS_MAX)

    @extend_schema(
        operation_id="bulk_silence", request=BulkSilence, responses={200: output(BulkAnswer)}
    )
    def post(self, request: Request) -> Response:
        """An operator's, on the table of each alert."""
        body = validated(self.BulkSilence, request)
        alerts, by = body.pop("alerts"), actor(request)

        def silence(alert_id: int) -> None:
            alert = get_alert_row(by, alert_id, timezone.now())
            table = access_table(by, alert.slug, Permission.OPERATE)
            do_silence(table=table, check=alert.check, by=by, **body)

        return _answered(request, alerts, silence, status=201)


class BulkServiceApi(ApiView):
    class BulkService(Strict):
        service = serializers.CharField(max_length=32)
        tables = _Once(child=serializers.CharField(max_length=64), help_text="Slugs.")
        parameters = to_serializer_field(SERVICE["parameters"])
        reason = to_serializer_field(REASON)

    @extend_schema(
        operation_id="bulk_service",
        request=BulkService,
        parameters=[OpenApiParameter(IDEMPOTENCY_KEY, str, OpenApiParameter.HEADER)],
        responses={200: output(BulkAnswer)},
    )
    def post(self, request: Request) -> Response:
        """With the same settings on each. What takes data away wants the plan of each table, so it
        is refused here.
        """
        body = validated(self.BulkService, request)
        service, key = body["service"], idempotency_key(request)
        if is_destructive(service):
            raise InvalidRequest("this deletes data: plan and confirm it on each table")

        def run(slug: str) -> UUID:
            table = access_table(request.user, slug, permission_of(service))
            _count_as_alone(request)
            operation = do_request_service(
                table,
                service,
                body["parameters"],
                "",
                body["reason"],
                "",
                actor(request),
                idempotency_key=key and _key_of_member(key, slug),
            )
            return operation.pk

        return _answered(request, body["tables"], run, status=202)


class BulkTablesApi(ApiView):
    permission_classes = [IsAdminToWrite]

    class BulkTables(Strict):
        tables = serializers.ListField(
            child=build_body(REGISTER_TABLE)(), min_length=1, max_length=MEMBERS_MAX
        )

        def validate_tables(self, tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
            if len({table["slug"] for table in tables}) < len(tables):
                raise serializers.ValidationError("every slug must be listed once")
            return tables

    @extend_schema(
        operation_id="bulk_tables", request=BulkTables, responses={200: output(BulkAnswer)}
    )
    def post(self, request: Request) -> Response:
        """Register them, in this order."""
        wishes = {table["slug"]: table for table in validated(self.BulkTables, request)["tables"]}

        def register(slug: str) -> None:
            do_register_table(**wishes[slug], by=actor(request))

        return _answered(request, list(wishes), register, status=201)


class BulkTagsApi(ApiView):
    class BulkTags(Strict):
        tables = _Once(child=serializers.CharField(max_length=64), help_text="Slugs.")
        add = serializers.CharField(
            max_length=TAGS_CHARS_MAX, required=False, allow_blank=True, default=""
        )
        remove = serializers.CharField(
            max_length=TAGS_CHARS_MAX, required=False, allow_blank=True, default=""
        )
        reason = to_serializer_field(NEEDED_REASON)

    @extend_schema(
        operation_id="bulk_tags", request=BulkTags, responses={200: output(TaggedTables)}
    )
    def post(self, request: Request) -> Response:
        """Add tags to these tables and remove others: on all of the tables or on none."""
        body = validated(self.BulkTags, request)
        tagged = do_tag_tables(body.pop("tables"), **body, by=actor(request))
        return Response(shown(tagged))


def _answered(
    request: Request, members: Sequence[Any], do_it: Callable[[Any], UUID | None], *, status: int
) -> Response:
    """Each member's outcome. What is an error on our side stays one: what was done before it is in
    the audit.
    """
    outcomes = [_outcome(request, member, do_it, status) for member in members]
    refused = sum(outcome.status >= 400 for outcome in outcomes)
    counted = BulkAnswer(done=len(outcomes) - refused, refused=refused, outcomes=outcomes)
    return Response(shown(counted))


def _outcome(
    request: Request, member: Any, do_it: Callable[[Any], UUID | None], status: int
) -> MemberOutcome:
    try:
        operation_id = do_it(member)
    except ANSWERED as error:
        problem: Any = answer(error, {"request": request})
        return MemberOutcome(
            member=str(member),
            status=problem.status_code,
            code=problem.data["code"],
            detail=problem.data["detail"],
            values=problem.data["values"],
            operation_id=None,
        )
    return MemberOutcome(
        member=str(member), status=status, code="", detail="", values={}, operation_id=operation_id
    )


def _count_as_alone(request: Request) -> None:
    """Each run counts against the rate of services. Raises Throttled."""
    throttle, alone = ScopedRateThrottle(), ServiceRunApi()
    if not throttle.allow_request(request, alone):
        raise Throttled(throttle.wait())


def _key_of_member(key: str, slug: str) -> str:
    return sha256(f"{key}\n{slug}".encode()).hexdigest()
