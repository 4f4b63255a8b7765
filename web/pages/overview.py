"""The first page of a table: what it is, how it is, and its timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_readers import READ_ALIKE
from controlplane.mirror.queries.sinks import old_keys_note
from controlplane.monitoring.thresholds import check_table_health
from controlplane.tables.access import Permission, access_table
from web.pages.timeline import timeline_context
from web.refusals import page, person

if TYPE_CHECKING:
    from controlplane.tables.models import Table


@dataclass(frozen=True, slots=True)
class CheckLine:
    check: Check
    action: str
    """The words of its button; empty without one."""
    url: str


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def overview(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {
        "page": "overview",
        "old_keys_note": old_keys_note(table),
        **_health(table),
        **timeline_context(request, table),
    }
    return render(request, "pages/overview.html", context)


@require_safe
@page
def health(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    return render(request, "fragments/health.html", {"table": table, **_health(table)})


def _health(table: Table) -> dict[str, object]:
    lines = [_line(table, check) for check in check_table_health(table, timezone.now())]
    return {
        "checks": lines,
        "passed": sum(line.check.verdict == "good" for line in lines),
        "read_otherwise": [
            line.check
            for line in lines
            if line.check.name == READ_ALIKE and line.check.verdict != "good"
        ],
    }


def _line(table: Table, check: Check) -> CheckLine:
    match check.remedy:
        case "":
            return CheckLine(check, "", "")
        case "rollback" if check.instant:
            url = reverse("rollback-plan", args=[table.slug, check.instant])
            return CheckLine(check, "Plan rollback", url)
        case "delete_savepoint":
            return CheckLine(check, "Show savepoints", reverse("savepoints", args=[table.slug]))
        case service:
            return CheckLine(
                check, f"Plan {service}", reverse("service", args=[table.slug, service])
            )
