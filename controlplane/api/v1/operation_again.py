"""POST /api/v1/operations/<id>/again/: run an operation that has ended again."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.outputs import shown
from controlplane.api.request_bodies import pop_given, read_body, takes
from controlplane.api.requests import actor
from controlplane.api.views import ApiView
from controlplane.operations.actions import do_request_again
from controlplane.operations.descriptions.operations import RUN_AGAIN
from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.queries import OperationDetail, access_operation, operation_detail
from controlplane.tables.access import Permission, access_table


class OperationAgainApi(ApiView):
    """With the same parameters, or with some of them changed. What takes data away needs the hash
    of a plan made now, the table's name and a reason, as at first.
    """

    throttle_scope = "service"

    @takes(RUN_AGAIN, "operations_again", OperationDetail)
    def post(self, request: Request, operation_id: UUID) -> Response:
        operation = access_operation(request.user, operation_id, Permission.VIEW)
        permission = kind_of(operation).permission(operation)
        access_table(request.user, operation.table.slug, permission)
        body = read_body(RUN_AGAIN, request)
        given = pop_given(request, body)
        again = do_request_again(operation, body["parameters"], given, actor(request))
        return Response(shown(operation_detail(again.pk, request.user)), status=202)
