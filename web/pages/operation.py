"""One operation while it runs, and the proof after it: what the mirror says, not what the worker
said.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.operations.selectors import operation_detail
from controlplane.tables.access import Permission, access_table
from web.doors import page, person
from web.service_forms import text_of
from web.verdicts import verification


@require_safe
@page
def operation(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    return render(
        request,
        "pages/operation.html",
        _context(request, slug, operation_id),
    )


@require_safe
@page
def operation_state(request: HttpRequest, slug: str, operation_id: UUID) -> HttpResponse:
    return render(request, "fragments/operation.html", _context(request, slug, operation_id))


def _context(request: HttpRequest, slug: str, operation_id: UUID) -> dict[str, Any]:
    table = access_table(person(request), slug, Permission.VIEW)
    found = operation_detail(operation_id)
    if found is None or found.row.table_slug != table.slug:
        raise Http404(f"this table has no operation {operation_id}")
    return {
        "page": "services" if found.row.kind == "service" else "rollback",
        "table": table,
        "operation": found,
        "words": text_of(found.row.service) if found.row.service else None,
        "synced_at": table.synced_at,
        **verification(table, found),
    }
