"""The audit: who did what to which object, why, under which plan, and how it ended; and whether
anybody changed it since.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from controlplane.accounts.roles import is_auditor
from controlplane.audit.queries import (
    AuditFilter,
    AuditRow,
    find_audit_row,
    load_audit_page,
    load_chain_state,
)
from controlplane.errors import InvalidRequest
from controlplane.operations.queries import operation_detail
from controlplane.tables.access import Permission, access_table
from web.operation_plan import describe_plan
from web.refusals import as_operation_id, page, person

ROWS_SHOWN = 50
CURSOR_CHARS_MAX = 120
_CHARS_MAX = {"who": 150, "what": 64, "object": 255, "result": 32, "request_id": 64}
"""As the columns are wide."""
_DAYS = {"today": 0, "yesterday": 1}
"""Buttons of the page, with the age of the day in days."""
_TIMES = ("since", "until")


@require_safe
@page
def audit(request: HttpRequest) -> HttpResponse:
    _refuse_others(person(request))
    if request.GET.get("day") in _DAYS:
        return redirect(f"{reverse('audit')}?{_of_day(request.GET)}")
    wanted = _filter(request.GET)
    cursor = request.GET.get("before", "")[:CURSOR_CHARS_MAX]
    rows = load_audit_page(wanted, cursor=cursor or None, limit=ROWS_SHOWN)
    exported = f"{reverse('api:audit_export')}?{urlencode(wanted.to_text())}"
    context = {
        "page": "audit",
        "chain": load_chain_state(),
        "rows": rows.rows,
        "next_cursor": rows.next_cursor,
        "cursor": cursor,
        "wanted": {name: request.GET.get(name, "") for name in (*_CHARS_MAX, *_TIMES)},
        "is_filtered": bool(wanted.to_text()),
        "export_csv": f"{exported}&file_format=csv",
        "export_json": f"{exported}&file_format=json",
    }
    return render(request, "pages/audit.html", context)


@require_safe
@page
def audit_row(request: HttpRequest, event_id: int) -> HttpResponse:
    _refuse_others(person(request))
    row = find_audit_row(event_id)
    if row is None:
        raise Http404(f"the audit has no row {event_id}")
    context = {"page": "audit", "row": row, **_links(person(request), row)}
    return render(request, "pages/audit_row.html", context)


def _of_day(query: QueryDict) -> str:
    """The filters with the bounds of today or yesterday, in UTC."""
    midnight = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    since = midnight - timedelta(days=_DAYS[str(query["day"])])
    bounds = {"since": since, "until": since + timedelta(days=1)}
    texts = {name: str(query[name]) for name in _CHARS_MAX if query.get(name)}
    times = {name: at.strftime("%Y-%m-%dT%H:%M:%S") for name, at in bounds.items()}
    return urlencode({**texts, **times})


def _refuse_others(user: User) -> None:
    """Raises PermissionDenied."""
    if not is_auditor(user):
        raise PermissionDenied("this requires the auditor role")


def _filter(query: Mapping[str, str]) -> AuditFilter:
    """Raises InvalidRequest for a time that is none."""
    # PostgreSQL takes no NUL, and no row has one.
    texts = {
        name: query.get(name, "").replace("\0", "").strip()[:most]
        for name, most in _CHARS_MAX.items()
    }
    since, until = (_time(query.get(name, ""), name) for name in _TIMES)
    return AuditFilter(**texts, since=since, until=until)


def _time(text: str, name: str) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(
            f"the field {name} must be a time such as 2026-11-23T20:00", text=text[:40]
        ) from error


def _links(user: User, row: AuditRow) -> dict[str, Any]:
    """Where the table and the operation stand that it is about, as far as there are such."""
    try:
        table = access_table(user, row.object, Permission.VIEW)
    except Http404:  # About something else, or the table is gone.
        return {"about_table": None, "operation_id": None}
    operation_id = as_operation_id(str(row.details.get("operation", "")))
    operation = operation_detail(operation_id, user) if operation_id else None
    is_here = operation is not None and operation.row.table_slug == table.slug
    effect = describe_plan(operation) if operation is not None and is_here else None
    return {
        "about_table": table,
        "operation_id": operation_id if is_here else None,
        "effect": effect,
    }
