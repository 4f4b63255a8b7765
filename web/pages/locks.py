"""The table lock: who has it, who waits, and how long commits have waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.tables.access import Permission, access_table
from controlplane.writers.locks import lock_status, lock_waits
from web.list_parts import cut_list
from web.lock_figures import gantt, wait_bins
from web.refusals import page, person

if TYPE_CHECKING:
    from controlplane.tables.models import Table

WAITS_LISTED = 50


@require_safe
@page
def locks(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"page": "locks", "table": table, **_now(table), **_history(request, table)}
    return render(request, "pages/locks.html", context)


@require_safe
@page
def locks_part(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    if part == "history":
        context = {"table": table, **_history(request, table)}
        return render(request, "fragments/lock_history.html", context)
    return render(request, "fragments/lock_now.html", {"table": table, **_now(table)})


def _now(table: Table) -> dict[str, Any]:
    now = timezone.now()
    now_ms = int(now.timestamp() * 1000)
    status = lock_status(table, now)
    waiters = [
        (one, (now_ms - one.since_ms) / 1000, (one.until_ms - now_ms) / 1000)
        for one in (status.waiters if status else [])
    ]
    return {"lock": status, "waiters": waiters, "now_ms": now_ms}


def _history(request: HttpRequest, table: Table) -> dict[str, Any]:
    """`around` in the address draws one decision and what was near it."""
    waits = lock_waits(table)
    known = {wait.instant for wait in waits}
    around = chosen if (chosen := request.GET.get("around", "")) in known else ""
    ordered = sorted(one.waited_ms for one in waits)
    return {
        "waits": cut_list(request.GET, "waits", waits, WAITS_LISTED),
        "around": around,
        "bins": wait_bins(waits),
        "p50_ms": ordered[len(ordered) // 2] if ordered else None,
        "p95_ms": ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else None,
        "most_ms": ordered[-1] if ordered else None,
        "gantt": gantt(waits, lock_status(table, timezone.now()), around=around),
    }
