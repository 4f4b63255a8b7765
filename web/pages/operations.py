"""All operations of all tables: what runs, what waits and for what, what ran. The filters stand in
the address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.errors import InvalidRequest
from controlplane.operations.actions import service_kinds
from controlplane.operations.filters import (
    ENDED,
    NOBODY,
    STATE_GROUPS,
    TEXT_CHARS_MAX,
    UNANSWERED,
    OperationFilter,
)
from controlplane.operations.kinds.kind import kinds
from controlplane.operations.queries import (
    OperationRow,
    access_operation,
    count_operations,
    listed_operations,
    load_board,
)
from controlplane.operations.states import OperationState
from controlplane.paging import PAGE_ROWS_MAX
from controlplane.tables.access import (
    Permission,
    access_table,
    may_see_some,
    visible_tables,
)
from web.exports import Columns, exported
from web.refusals import page, person
from web.time_zones import shown_zone

ROWS_SHOWN = 50
EXPORT_ROWS_MAX = 10_000
_CURSOR_CHARS_MAX = 120
_FILTERS = ("table", "kind", "state", "who", "since", "until", "q")


@dataclass(frozen=True, slots=True)
class ListedOperation:
    row: OperationRow
    wait_url: str
    """Where what it waits for is shown; empty for nowhere."""


@require_safe
@page
def operations(request: HttpRequest) -> HttpResponse:
    context = {
        "page": "operations",
        "kinds": [(name, name.capitalize()) for name in kinds()],
        "services": [(service.name, service.title) for service in service_kinds()],
        "state_groups": list(STATE_GROUPS),
        "states": [state.value for state in OperationState],
        "nobody": NOBODY,
        "unanswered": UNANSWERED,
        **_rows(request),
    }
    return render(request, "pages/operations.html", context)


@require_safe
@page
def operation_by_id(request: HttpRequest, operation_id: UUID) -> HttpResponse:
    """Redirect to the page of the operation. People copy its id, and not the name of its table."""
    operation = access_operation(person(request), operation_id, Permission.VIEW)
    return redirect("operation", operation.table.slug, operation.pk)


@require_safe
@page
def table_operations(request: HttpRequest, slug: str) -> HttpResponse:
    """Redirect to the list with this table as its filter."""
    table = access_table(person(request), slug, Permission.VIEW)
    return redirect(f"{reverse('operations')}?{urlencode({'table': table.slug})}")


@require_safe
@page
def operations_rows(request: HttpRequest) -> HttpResponse:
    return render(request, "fragments/operation_rows.html", _rows(request))


@require_safe
@page
def operations_export(request: HttpRequest) -> HttpResponse:
    """All that the filters leave, newest first, as a file; up to `EXPORT_ROWS_MAX`."""
    user = person(request)
    tables = visible_tables(user)
    wanted = _filter(_given(request))
    rows: list[OperationRow] = []
    cursor: str | None = None
    while len(rows) <= EXPORT_ROWS_MAX:
        listed = listed_operations(
            tables,
            user,
            wanted,
            cursor=cursor,
            limit=PAGE_ROWS_MAX,
        )
        rows += listed.rows
        cursor = listed.next_cursor
        if cursor is None:
            break
    is_cut = len(rows) > EXPORT_ROWS_MAX
    total = max(count_operations(tables, user, wanted), len(rows)) if is_cut else len(rows)
    as_format = request.GET.get("as", "csv")
    return exported(
        "operations", as_format, _COLUMNS, rows[:EXPORT_ROWS_MAX], total=total, at=timezone.now()
    )


_COLUMNS: Columns = (
    ("id", lambda row: row.id),
    ("table", lambda row: row.table_slug),
    ("kind", lambda row: row.kind),
    ("service", lambda row: row.service),
    ("state", lambda row: row.state),
    ("requested_by", lambda row: row.requested_by),
    ("requested_at", lambda row: row.requested_at),
    ("started_at", lambda row: row.started_at),
    ("finished_at", lambda row: row.finished_at),
    ("reason", lambda row: row.reason),
    ("message", lambda row: row.message),
    ("instant", lambda row: row.instant),
    ("writer", lambda row: row.writer),
    ("attempts", lambda row: row.attempts + 1),
    ("lasted_s", lambda row: row.lasted_s),
    ("left_s", lambda row: row.left_s),
)


def _given(request: HttpRequest) -> dict[str, str]:
    if not may_see_some(person(request)):
        raise PermissionDenied("this requires the viewer role")
    # PostgreSQL takes no NUL, and no row has one.
    query = {name: request.GET.get(name, "").replace("\0", "") for name in _FILTERS}
    return {name: text.strip()[:TEXT_CHARS_MAX] for name, text in query.items()}


def _rows(request: HttpRequest) -> dict[str, Any]:
    """Return the rows. The first page lists open operations first, unless a state is chosen. Later
    pages list ended operations only, so one that ends between two pages is listed twice.
    """
    given = _given(request)
    cursor = request.GET.get("before", "")[:_CURSOR_CHARS_MAX]
    wanted = _filter(given)
    user = person(request)
    tables, opened, is_open_cut = visible_tables(user), [], False
    if given["state"]:
        listed = listed_operations(tables, user, wanted, cursor=cursor or None, limit=ROWS_SHOWN)
    elif cursor:
        ended = replace(wanted, states=frozenset({ENDED}))
        listed = listed_operations(tables, user, ended, cursor=cursor, limit=ROWS_SHOWN)
    else:
        board = load_board(tables, user, wanted, limit=ROWS_SHOWN)
        opened, is_open_cut, listed = board.open, board.is_open_cut, board.ended
    return {
        "opened": [ListedOperation(row, wait_url(row)) for row in opened],
        "is_open_cut": is_open_cut,
        "operations": [ListedOperation(row, wait_url(row)) for row in listed.rows],
        "shown_count": len(opened) + len(listed.rows),
        "next_cursor": listed.next_cursor,
        "cursor": cursor,
        "asked": given,
        "is_filtered": not wanted.is_any,
        "at": timezone.now(),
    }


def _filter(given: Mapping[str, str]) -> OperationFilter:
    """Raises InvalidRequest for a time that is none."""
    return OperationFilter(
        table=given["table"],
        kinds=frozenset({given["kind"]}) if given["kind"] else None,
        states=frozenset({given["state"]}) if given["state"] else None,
        who=given["who"],
        since=_time(given["since"]),
        until=_time(given["until"]),
        text=given["q"],
    )


def _time(text: str) -> datetime | None:
    """Of the reader's zone where it names none, as the page's own fields do not."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=shown_zone()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest("expected a time such as 2026-01-31T14:05", given=text[:40]) from error


def wait_url(row: OperationRow) -> str:
    """Where what it waits for is shown; empty for nowhere."""
    wait = row.waits_for
    match wait.page if wait else "":
        case "operation" if wait:
            return reverse("operation", args=[wait.table, wait.operation])
        case "locks":
            return reverse("locks", args=[row.table_slug])
        case "approval":
            return reverse("approval", args=[row.id])
        case "running":
            return f"{reverse('operations')}?state=running"
        case _:
            return ""
