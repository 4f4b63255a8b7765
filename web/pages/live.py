"""The live page of a table: each part is a fragment that first load and refresh share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.mirror.queries.table_details import join_status, pending_markers
from controlplane.mirror.timeline_rows import newest_undone
from controlplane.operations.queries import marker_server_status, recent_operations
from controlplane.operations.stream_rounds import StreamRounds, stream_rounds
from controlplane.tables.access import Permission, access_table
from controlplane.tables.freshness import freshness
from controlplane.tables.queries import table_row
from controlplane.writers.conflicts import recent_conflicts
from controlplane.writers.queries import writers_board
from web.additions import head_parts
from web.advice import explain
from web.board import board
from web.refusals import page, person
from web.sparkline import sparkline

if TYPE_CHECKING:
    from controlplane.tables.models import Table

CONFLICTS_SHOWN = 10
OPERATIONS_SHOWN = 8
UNDONE_SHOWN = 8
_SPARK_WIDTH, _SPARK_HEIGHT = 300, 40


@require_safe
@page
def live(request: HttpRequest, slug: str) -> HttpResponse:
    table, now = access_table(person(request), slug, Permission.VIEW), timezone.now()
    context: dict[str, Any] = {"page": "live", "table": table}
    for build in _PARTS.values():
        context |= build(table, now, context)
    for head_part in head_parts().values():
        context |= head_part.context(table)
    context["head_parts"] = head_parts().values()
    return render(request, "pages/live.html", context)


@require_safe
@page
def live_part(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    """One fragment, fresh."""
    table, now = access_table(person(request), slug, Permission.VIEW), timezone.now()
    if head_part := head_parts().get(part):
        context = {"table": table, **head_part.context(table)}
        return render(request, head_part.template, context)
    build = _PARTS.get(part)
    if build is None:
        raise Http404(f"there is no part {part}")
    context = {"table": table, **build(table, now, {})}
    return render(request, f"fragments/{part}.html", context)


@require_safe
@page
def as_of(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    """One fragment of the frame around every page of the table, fresh: how old it is, or the notice
    that says why it is no newer.
    """
    table = access_table(person(request), slug, Permission.VIEW)
    if part not in ("freshness", "mirror_notice"):
        raise Http404(f"there is no part {part}")
    return render(request, f"fragments/{part}.html", {"fresh": freshness(table)})


def _writers(table: Table, now: datetime, _: dict[str, Any]) -> dict[str, Any]:
    rounds = stream_rounds(table, now)
    return {"rounds": rounds, **board(table, rounds, now)}


def _figures(table: Table, now: datetime, known: dict[str, Any]) -> dict[str, Any]:
    writers = known.get("writers")
    rows = [line.row for line in writers] if writers is not None else writers_board(table, now)
    active = sum(row.state in ("alive", "suspect") for row in rows)
    return {
        "row": table_row(table, now=now, active_writers=active),
        "at_risk": sum(row.state in ("suspect", "expired") for row in rows),
        "synced_ms": int(table.synced_at.timestamp() * 1000) if table.synced_at else None,
    }


def _streams(table: Table, now: datetime, known: dict[str, Any]) -> dict[str, Any]:
    rounds: list[StreamRounds] = known["rounds"] if known else stream_rounds(table, now)
    by_stream = {one.stream: one for one in rounds}
    join = join_status(table)
    return {"join": join, "joined": [(row, by_stream.get(row.stream)) for row in join.streams]}


def _markers(table: Table, _now: datetime, _: dict[str, Any]) -> dict[str, Any]:
    rows = pending_markers(table)
    return {"markers": rows, "markers_total": sum(row.count for row in rows)}


def _server(_table: Table, _now: datetime, _: dict[str, Any]) -> dict[str, Any]:
    status = marker_server_status()
    # Counted since the server started.
    batches, requests = (status.latest.batches, status.latest.requests) if status.latest else (0, 0)
    return {
        "server": status,
        "per_batch": f"{requests / batches:.1f}" if batches else "",
        "spark": sparkline(
            [sample.queue_depth if sample.up else None for sample in status.samples],
            width=_SPARK_WIDTH,
            height=_SPARK_HEIGHT,
        ),
    }


def _operations(table: Table, _now: datetime, _: dict[str, Any]) -> dict[str, Any]:
    return {"operations": recent_operations(table, OPERATIONS_SHOWN)}


def _conflicts(table: Table, _now: datetime, _: dict[str, Any]) -> dict[str, Any]:
    return {"stories": [explain(row) for row in recent_conflicts(table, CONFLICTS_SHOWN)]}


def _undone(table: Table, _now: datetime, _: dict[str, Any]) -> dict[str, Any]:
    return {"undone": newest_undone(table, UNDONE_SHOWN)}


# In this order: figures and streams reuse what the writers have read.
_PARTS: dict[str, Callable[[Table, datetime, dict[str, Any]], dict[str, Any]]] = {
    "writers": _writers,
    "figures": _figures,
    "streams": _streams,
    "markers": _markers,
    "server": _server,
    "operations": _operations,
    "conflicts": _conflicts,
    "undone": _undone,
}
