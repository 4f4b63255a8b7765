"""The live page of a table: each part is a fragment that first load and refresh share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.mirror.queries.table_details import (
    join_status,
    markers_query,
    pending_markers,
    statuses_query,
)
from controlplane.mirror.timeline_rows import undone_query, undone_rows
from controlplane.operations.queries import (
    marker_server_status,
    operation_rows,
    recent_query,
    server_queries,
)
from controlplane.operations.stream_rounds import StreamRounds, round_queries, stream_rounds
from controlplane.read_together import read_together
from controlplane.tables.access import Permission, access_table
from controlplane.tables.freshness import freshness
from controlplane.tables.queries import counts_query, table_row
from controlplane.tables.row_access import RowAccess, row_access
from controlplane.writers.conflicts import conflict_row
from controlplane.writers.conflicts import recent_query as conflicts_query
from controlplane.writers.queries import WriterRow, beats_query, writers_board
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


class _Look:
    """One person's look at one table, as of one moment. What its parts read is read by one
    statement for the whole page, and by each part alone for a part.
    """

    def __init__(self, user: User, table: Table, now: datetime) -> None:
        self.user, self.table, self.now = user, table, now
        self.beats = beats_query(table, now)
        self.rounds_queries = round_queries(table)
        self.counts = counts_query(table, now)
        self.statuses = statuses_query(table)
        self.marker_counts = markers_query(table)
        self.server_queries = server_queries()
        self.newest_operations = recent_query(table, OPERATIONS_SHOWN)
        self.newest_conflicts = conflicts_query(table, CONFLICTS_SHOWN)
        self.newest_undone = undone_query(table, UNDONE_SHOWN)

    def read_all(self) -> None:
        """Read what the whole page shows."""
        read_together(
            self.beats, *self.rounds_queries, self.counts, self.statuses, self.marker_counts,
            *self.server_queries, self.newest_operations, self.newest_conflicts, self.newest_undone,
        )  # fmt: skip

    @cached_property
    def access(self) -> RowAccess:
        return row_access(self.user, self.table)

    @cached_property
    def writers(self) -> list[WriterRow]:
        return writers_board(self.table, self.now, self.beats)

    @cached_property
    def rounds(self) -> list[StreamRounds]:
        return stream_rounds(self.table, self.now, self.rounds_queries)


@require_safe
@page
def live(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context: dict[str, Any] = {"page": "live", "table": table, "wall": wall_of(request, table)}
    look = _Look(person(request), table, timezone.now())
    look.read_all()
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
        raise Http404(f"part {part} not found")
    context = {"table": table, **build(_Look(person(request), table, timezone.now()))}
    return render(request, f"fragments/{part}.html", context)


@require_safe
@page
def live_parts(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the fragments that `names` lists, or all, each in a template element with its name.

    A change concerns most parts of the page. One request reads what they share once.
    """
    table = access_table(person(request), slug, Permission.VIEW)
    look = _Look(person(request), table, timezone.now())
    every = [*_PARTS, *head_parts()]
    names = request.GET["names"].split(",") if "names" in request.GET else every
    listed = [name for name in every if name in names]
    if not listed:
        raise Http404("the part of the page is missing: add ?part=")
    look.read_all()
    parts = []
    for name in listed:
        if head_part := head_parts().get(name):
            template, context = head_part.template, head_part.context(table)
        else:
            template, context = f"fragments/{name}.html", _PARTS[name](look)
        html = render_to_string(template, {"table": table, **context}, request)
        parts.append((name, html))
    return render(request, "fragments/live_parts.html", {"parts": parts})


@require_safe
@page
def as_of(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    """One fragment of the frame around every page of the table, fresh: how old it is, or the notice
    that says why it is no newer.
    """
    table = access_table(person(request), slug, Permission.VIEW)
    if part not in ("freshness", "mirror_notice"):
        raise Http404(f"part {part} not found")
    return render(request, f"fragments/{part}.html", {"fresh": freshness(table)})


def _writers(look: _Look) -> dict[str, Any]:
    read_together(look.beats, *look.rounds_queries)
    return {
        "rounds": look.rounds,
        **board(look.table, look.writers, look.rounds, look.now),
    }


def _figures(look: _Look) -> dict[str, Any]:
    table = look.table
    read_together(look.beats, look.counts)
    active = sum(row.state in ("alive", "suspect") for row in look.writers)
    return {
        "row": table_row(table, now=look.now, active_writers=active, counts=look.counts),
        "at_risk": sum(row.state in ("suspect", "expired") for row in look.writers),
        "synced_ms": int(table.synced_at.timestamp() * 1000) if table.synced_at else None,
    }


def _streams(look: _Look) -> dict[str, Any]:
    read_together(look.statuses, *look.rounds_queries)
    by_stream = {rounds.stream: rounds for rounds in look.rounds}
    join = join_status(look.table, look.access, look.statuses)
    return {"join": join, "joined": [(row, by_stream.get(row.stream)) for row in join.streams]}


def _markers(look: _Look) -> dict[str, Any]:
    rows = pending_markers(look.table, look.marker_counts)
    return {"markers": rows, "markers_total": sum(row.count for row in rows)}


def _server(look: _Look) -> dict[str, Any]:
    status = marker_server_status(look.server_queries)
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
    return {"operations": operation_rows(look.newest_operations, look.user)}


def _conflicts(look: _Look) -> dict[str, Any]:
    rows = [conflict_row(conflict, look.access) for conflict in look.newest_conflicts]
    return {"stories": [explain(row) for row in rows]}


def _undone(look: _Look) -> dict[str, Any]:
    return {"undone": undone_rows(look.newest_undone)}


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
