"""How old is what the pages of a table show: the parts of the frame around each of them."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.tables.access import Permission, access_table
from controlplane.tables.freshness import freshness
from web.refusals import page, person

PARTS = ("freshness", "mirror_notice")


@require_safe
@page
def part(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    """One fragment, fresh."""
    table = access_table(person(request), slug, Permission.VIEW)
    if part not in PARTS:
        raise Http404(f"there is no part {part}")
    return render(request, f"fragments/{part}.html", {"fresh": freshness(table)})
