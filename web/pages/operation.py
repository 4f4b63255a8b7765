"""One operation while it runs, and the proof after it: what the mirror says, not what the worker
said.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.mirror.queries.phases import instant_phases
from controlplane.operations.actions import (
    do_request_again,
    do_request_cancel,
    find_pause,
    is_cancellable,
)
from controlplane.operations.descriptions.services import get_service
from controlplane.operations.kinds.kind import Cancelling, kind_named
from controlplane.operations.queries import (
    OperationDetail,
    access_operation,
    describe_operation,
)
from controlplane.operations.query_sources import shown_whole
from controlplane.operations.requesting import Given
from controlplane.tables.access import Permission, access_table, may
from web.operation_parameters import shown_parameters
from web.operation_plan import describe_plan
from web.pages.operation_log import log_context
from web.pages.operations import wait_url
from web.refusals import as_operation_id, page, person, refusal_of
from web.rollback_flow import flow
from web.verdicts import verification
from web.write_forms import SOURCES

if TYPE_CHECKING:
    from controlplane.operations.models import Operation

PARAMETERS_CHARS_MAX = 20_000


@require_safe
@page
def operation(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    record, is_whole = _find(request, slug, operation_id)
    context = _context(request, record, is_whole=is_whole)
    context["log"] = log_context(request, record, is_whole=is_whole)
    return render(request, "pages/operation.html", context)


@require_safe
@page
def operation_state(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    record, is_whole = _find(request, slug, operation_id)
    context = _context(request, record, is_whole=is_whole)
    return render(request, "fragments/operation.html", context)


@require_POST
@page
def operation_cancel(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    """Ask that it ends; the page it comes back to shows how it does."""
    table = access_table(person(request), slug, Permission.OPERATE)
    operation = access_operation(person(request), operation_id, Permission.OPERATE)
    if operation.table.slug != table.slug:
        raise Http404(f"this table has no operation {operation_id}")
    reason = request.POST.get("reason", "")[:500]
    try:
        do_request_cancel(operation=operation, by=person(request), reason=reason)
    except NotAllowedNow as error:  # It ended meanwhile, as the page will show.
        messages.info(request, refusal_of(error).text)
    return redirect("operation", table.slug, operation_id)


@require_POST
@page
def operation_again(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    """Once more as it was, or with changed parameters, for what needs no plan; leads to the new
    one.
    """
    table = access_table(person(request), slug, Permission.OPERATE)
    ended = access_operation(person(request), operation_id, Permission.OPERATE)
    if ended.table.slug != table.slug:
        raise Http404(f"this table has no operation {operation_id}")
    key = as_operation_id(request.POST.get("idempotency_key", ""))
    if key is None:
        raise InvalidRequest("the form key is missing: reload the page")
    reason = request.POST.get("reason", "")[:500]
    given = Given(reason=reason, idempotency_key=str(key))
    again = do_request_again(ended, _changes(request), given, person(request))
    return redirect("operation", table.slug, again.pk)


def _changes(request: HttpRequest) -> dict[str, Any]:
    """Parameters to replace, by name. Raises InvalidRequest if they are not a JSON object."""
    text = request.POST.get("parameters", "").strip() or "{}"
    try:
        changes = json.loads(text[:PARAMETERS_CHARS_MAX])
    except ValueError as error:
        raise InvalidRequest(f"parameters must be valid JSON: {error}") from error
    if not isinstance(changes, dict):
        raise InvalidRequest("parameters must be a JSON object: {...}")
    return changes


_SEVERAL = "rollback_several"


def _again(operation: OperationDetail) -> dict[str, Any]:
    """How what has ended is asked for once more: at once by a form with this key, or by its plan's
    address.
    """
    row, kind = operation.row, kind_named(operation.row.kind)
    if not row.is_final or kind.again is None:
        return {}
    if not kind.is_planned:
        source = operation.parameters.get("job", {}).get("source", {})
        has_form = row.kind == "write" and source.get("kind") in SOURCES
        return {"again_key": uuid4(), "has_form": has_form}
    if row.service:
        query = urlencode(operation.parameters.get("job", {}).get("parameters", {}))
        return {"again_url": f"{reverse('service', args=[row.table_slug, row.service])}?{query}"}
    return {"again_url": reverse("rollback-plan", args=[row.table_slug, row.instant])}


def _find(request: HttpRequest, slug: str, operation_id: UUID) -> tuple[Operation, bool]:
    """Return the operation, and whether its values are shown whole. Raises Http404."""
    user = person(request)
    record = access_operation(user, operation_id, Permission.VIEW)
    if record.table.slug != slug:
        raise Http404(f"this table has no operation {operation_id}")
    return record, record.pk in shown_whole(user, [record])


def _context(request: HttpRequest, record: Operation, *, is_whole: bool) -> dict[str, Any]:
    table = record.table
    operation = describe_operation(record, is_whole=is_whole)
    may_operate = may(person(request), Permission.OPERATE, table)
    row, kind = operation.row, kind_named(operation.row.kind)
    return {
        "is_cancellable": is_cancellable(row),
        "may_cancel": may_operate,
        "stops_between_steps": kind.cancelling is Cancelling.BETWEEN_STEPS,
        "page": "operations",
        "section": kind.page,
        "parameters": shown_parameters(operation.parameters),
        "wait_url": wait_url(row),
        "table": table,
        "operation": operation,
        "effect": describe_plan(operation),
        "phases": instant_phases(table, row.instant) if row.instant else [],
        "words": get_service(operation.row.service) if operation.row.service else None,
        "synced_at": table.synced_at,
        "pause": find_pause(table) if kind.page == "rollback" or row.service == _SEVERAL else None,
        **_again(operation),
        **flow(record.pk),
        **verification(operation),
    }
