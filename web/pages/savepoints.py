"""Savepoints: which states of the table are kept, how to keep another one, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.mirror.queries.table_services import SavepointRow
from controlplane.mirror.queries.table_services import savepoints as savepoint_rows
from controlplane.mirror.timeline_rows import InstantRow, timeline_window
from controlplane.tables.access import Permission, access_table, may
from controlplane.tables.queries import DATA_ACTIONS
from web.list_parts import ListPart, build_part, read_window
from web.refusals import page, person

if TYPE_CHECKING:
    from controlplane.tables.models import Table

CHOICES_SHOWN = 25


@require_safe
@page
def savepoints(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"page": "savepoints", "table": table, **_rows(request, table)}
    return render(request, "pages/savepoints.html", context)


@require_safe
@page
def savepoints_rows(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    return render(request, "fragments/savepoints.html", {"table": table, **_rows(request, table)})


def _rows(request: HttpRequest, table: Table) -> dict[str, Any]:
    kept = savepoint_rows(table)
    return {
        "savepoints": kept,
        "candidates": _candidates(request, table, kept),
        "may_operate": may(person(request), Permission.OPERATE, table),
        "may_administer": may(person(request), Permission.ADMINISTER, table),
    }


def _candidates(
    request: HttpRequest, table: Table, kept: list[SavepointRow]
) -> ListPart[InstantRow]:
    """Return the newest completed writes without a savepoint; archived ones cannot have one."""
    window = read_window(request.GET, "candidates", CHOICES_SHOWN)
    known = {one.instant for one in kept}
    rows = timeline_window(
        table,
        actions=DATA_ACTIONS,
        states=("completed",),
        archived=False,
        limit=window.stop + 1 + len(known),
    ).rows
    candidates = [row for row in rows if row.requested_at not in known]
    return build_part(window, candidates[window.start : window.stop + 1], total=None)
