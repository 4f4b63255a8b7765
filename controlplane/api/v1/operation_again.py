"""POST /api/v1/operations/<id>/again/: an operation that has ended, once more."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.outputs import output, shown
from controlplane.api.parsing import Strict, validated
from controlplane.api.requests import IDEMPOTENCY_KEY, actor, idempotency_key
from controlplane.api.views import ApiView
from controlplane.operations.actions import do_request_again
from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.queries import OperationDetail, access_operation, operation_detail
from controlplane.operations.requesting import Given
from controlplane.tables.access import Permission, access_table


class OperationAgainApi(ApiView):
    """With the same parameters, or with some of them changed. What takes data away needs the hash
    of a plan made now, the table's name and a reason, as at first.
    """

    throttle_scope = "service"

    class AgainRequest(Strict):
        parameters = serializers.DictField(
            required=False, default=dict, help_text="Those to replace, by name."
        )
        plan_hash = serializers.CharField(max_length=64, required=False, default="")
        reason = serializers.CharField(max_length=500, required=False, default="")
        table_name = serializers.CharField(max_length=200, required=False, default="")

    @extend_schema(
        operation_id="operations_again",
        request=AgainRequest,
        parameters=[OpenApiParameter(IDEMPOTENCY_KEY, str, OpenApiParameter.HEADER)],
        responses={202: output(OperationDetail)},
    )
    def post(self, request: Request, operation_id: UUID) -> Response:
        operation = access_operation(request.user, operation_id, Permission.VIEW)
        permission = kind_of(operation).permission(operation)
        access_table(request.user, operation.table.slug, permission)
        body = validated(self.AgainRequest, request)
        given = Given(
            reason=body["reason"],
            typed_name=body["table_name"],
            plan_hash=body["plan_hash"],
            idempotency_key=idempotency_key(request),
        )
        again = do_request_again(operation, body["parameters"], given, actor(request))
        return Response(shown(operation_detail(again.pk, request.user)), status=202)
