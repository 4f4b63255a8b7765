"""The live page of a table: each part is a fragment that first load and refresh share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
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
from controlplane.tables.row_access import RowAccess, row_access
from controlplane.writers.conflicts import recent_conflicts
from controlplane.writers.queries import writers_board
from web.additions import head_parts
from web.advice import explain
from web.board import board
from web.refusals import page, person
from web.sparkline import sparkline
from web.wall import wall_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from controlplane.tables.models import Table

CONFLICTS_SHOWN = 10
OPERATIONS_SHOWN = 8
UNDONE_SHOWN = 8
_SPARK_WIDTH, _SPARK_HEIGHT = 300, 40


@dataclass
class _Look:
    """One person's look at one table, as of one moment."""

    user: User
    table: Table
    now: datetime
    known: dict[str, Any] = field(default_factory=dict)
    """What the parts before have made of it."""

    @cached_property
    def access(self) -> RowAccess:
        return row_access(self.user, self.table)


@require_safe
@page
def live(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context: dict[str, Any] = {"page": "live", "table": table, "wall": wall_of(request, table)}
    look = _Look(person(request), table, timezone.now(), context)
    for build in _PARTS.values():
        context |= build(look)
    for head_part in head_parts().values():
        context |= head_part.context(table)
    context["head_parts"] = head_parts().values()
    return render(request, "pages/live.html", context)


@require_safe
@page
def live_part(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    """One fragment, fresh."""
    table = access_table(person(request), slug, Permission.VIEW)
    if head_part := head_parts().get(part):
        context = {"table": table, **head_part.context(table)}
        return render(request, head_part.template, context)
    build = _PARTS.get(part)
    if build is None:
        raise Http404(f"there is no part {part}")
    context = {"table": table, **build(_Look(person(request), table, timezone.now()))}
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


def _writers(look: _Look) -> dict[str, Any]:
    rounds = stream_rounds(look.table, look.now)
    return {"rounds": rounds, **board(look.table, rounds, look.now)}


def _figures(look: _Look) -> dict[str, Any]:
    table, now = look.table, look.now
    writers = look.known.get("writers")
    rows = [line.row for line in writers] if writers is not None else writers_board(table, now)
    active = sum(row.state in ("alive", "suspect") for row in rows)
    return {
        "row": table_row(table, now=now, active_writers=active),
        "at_risk": sum(row.state in ("suspect", "expired") for row in rows),
        "synced_ms": int(table.synced_at.timestamp() * 1000) if table.synced_at else None,
    }


def _streams(look: _Look) -> dict[str, Any]:
    known = look.known.get("rounds")
    rounds: list[StreamRounds] = stream_rounds(look.table, look.now) if known is None else known
    by_stream = {one.stream: one for one in rounds}
    join = join_status(look.table, look.access)
    return {"join": join, "joined": [(row, by_stream.get(row.stream)) for row in join.streams]}


def _markers(look: _Look) -> dict[str, Any]:
    rows = pending_markers(look.table)
    return {"markers": rows, "markers_total": sum(row.count for row in rows)}


def _server(_look: _Look) -> dict[str, Any]:
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


def _operations(look: _Look) -> dict[str, Any]:
    return {"operations": recent_operations(look.table, look.user, OPERATIONS_SHOWN)}


def _conflicts(look: _Look) -> dict[str, Any]:
    conflicts = recent_conflicts(look.table, look.access, CONFLICTS_SHOWN)
    return {"stories": [explain(row) for row in conflicts]}


def _undone(look: _Look) -> dict[str, Any]:
    return {"undone": newest_undone(look.table, UNDONE_SHOWN)}


# In this order: figures and streams reuse what the writers have read.
_PARTS: dict[str, Callable[[_Look], dict[str, Any]]] = {
    "writers": _writers,
    "figures": _figures,
    "streams": _streams,
    "markers": _markers,
    "server": _server,
    "operations": _operations,
    "conflicts": _conflicts,
    "undone": _undone,
}
