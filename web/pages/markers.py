"""Markers: load and latency of the server, pending markers of each instant, orphaned markers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.errors import ControlPlaneError
from controlplane.mirror.marker_tree import marker_tree
from controlplane.operations.queries import BatchTotals, marker_server_status
from controlplane.tables.access import Permission, access_table
from controlplane.writers.markers import marker_directories
from web.marker_figures import (
    batch_sizes,
    compare_batches,
    fill_of_files,
    latencies,
    pending_markers,
    queue_depth,
    size_bars,
)
from web.refusals import page, person, refusal_of

if TYPE_CHECKING:
    from controlplane.tables.models import Table


@dataclass(frozen=True, slots=True)
class SavedRow:
    period: str
    totals: BatchTotals


@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def markers(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"page": "markers", "table": table, **_server(), **_directories(table)}
    return render(request, "pages/markers.html", context)


@require_safe
@page
def markers_part(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    if part == "server":
        return render(request, "fragments/marker_server.html", {"table": table, **_server()})
    context = {"table": table, **_directories(table)}
    return render(request, "fragments/marker_directories.html", context)


@require_safe
@page
def tree(request: HttpRequest, slug: str, instant: str) -> HttpResponse:
    """Reads storage: somebody asked for exactly this instant."""
    table = access_table(person(request), slug, Permission.VIEW)
    context: dict[str, Any] = {"page": "markers", "table": table, "instant": instant}
    try:
        context["tree"] = marker_tree(table, instant)
    except ControlPlaneError as error:
        context["problem"] = refusal_of(error).text
    return render(request, "pages/marker_tree.html", context)


def _server() -> dict[str, Any]:
    status = marker_server_status()
    saved = [
        SavedRow(period, totals)
        for period, totals in (("last 5 minutes", status.recent), ("since start", status.total))
        if totals is not None and totals.batches
    ]
    sizes = batch_sizes(status)
    return {
        "server": status,
        "unanswered": sum(not sample.up for sample in status.samples),
        "sizes": sizes,
        "saved": saved,
        "queue_figure": queue_depth(status.samples),
        "latency_figure": latencies(status.samples),
        "sizes_figure": size_bars(sizes),
        "saved_figure": compare_batches([(row.period, row.totals) for row in saved]),
    }


def _directories(table: Table) -> dict[str, Any]:
    directories = marker_directories(table, timezone.now())
    return {
        "directories": directories,
        "markers_total": sum(row.markers for row in directories),
        "orphans": [row for row in directories if row.is_orphan],
        "direct": [row for row in directories if row.layout == "direct"],
        "by_server": [row for row in directories if row.files],
        "pending_figure": pending_markers(directories),
        "fill_figure": fill_of_files(directories),
    }
