"""One table's timeline: the chart, its twin as a table, and one instant beside them. The address is
the only state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.errors import ControlPlaneError
from controlplane.mirror.decoded import decoded_instant
from controlplane.mirror.density import Density, timeline_density
from controlplane.mirror.queries.links import instant_links
from controlplane.mirror.queries.phases import phase_spreads
from controlplane.mirror.queries.table_details import instant_detail
from controlplane.mirror.timeline_rows import (
    STATES,
    HistoryReach,
    InstantRow,
    TimelineWindow,
    history_reach,
    timeline_window,
)
from controlplane.operations.queries import operation_detail
from controlplane.tables.access import Permission, access_table
from controlplane.tables.row_access import RowAccess, row_access
from controlplane.writers.conflicts import conflict_of
from web import charts
from web.chart_marks import Figure
from web.list_parts import ALL
from web.overlays import NAMES, OverlayLine, overlay_lines, shapes
from web.refusals import as_operation_id, page, person, refusal_of
from web.templatetags.lake import age
from web.windows import (
    RANGES_MS,
    TimelineQuery,
    bounds,
    fitted,
    neighbours,
    parse_query,
    to_instant,
)

if TYPE_CHECKING:
    from controlplane.tables.models import Table

ROWS_SHOWN = 100
LATEST_SHOWN = 200
FILES_SHOWN = 300
TABS = ("summary", "partitions", "files", "json", "links")
TABS_OF_UNDONE = ("summary", "links")
STAYING = ("rollback", "clean", "restore", "savepoint")
"""Actions that no rollback takes back."""
"""What was taken back has no files any more."""
ACTIONS = (
    "commit",
    "deltacommit",
    "replacecommit",
    "compaction",
    "clustering",
    "clean",
    "rollback",
    "savepoint",
    "restore",
    "indexing",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One window of one table, fetched once for chart and words."""

    history: HistoryReach
    window: TimelineWindow
    """All of it; of a crowded one the newest rows."""
    since_ms: int
    until_ms: int
    now_ms: int
    is_older: bool = False
    """Nothing happened in the usual window, so the latest instants are shown instead."""
    counted: Density | None = None
    """Instead of single instants, where they are too many."""
    bin_ms: int = 0


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def timeline(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {
        "page": "timeline",
        "phase_spreads": phase_spreads(table),
        **timeline_context(request, table),
    }
    return render(request, "pages/timeline.html", context)


def timeline_context(request: HttpRequest, table: Table) -> dict[str, Any]:
    """All that `fragments/timeline_body.html` shows; other pages of a table include it too."""
    query = parse_query(request.GET)
    shown = _window(table, query)
    lines = overlay_lines(table, query.overlays)
    context = {
        "table": table,
        "asked": query,
        "figure": _figure(query, shown, lines),
        "overlays": NAMES,
        **_overlays(lines),
        "summary": _summary(shown),
        "near": neighbours(shown.since_ms, shown.until_ms),
        "ranges": list(RANGES_MS),
        "lanes": [by.value for by in charts.LaneBy],
        "actions": ACTIONS,
        "states": STATES,
        **_rows(table, query, shown),
    }
    if query.selected:
        context |= _instant(request, table, query.selected, query.tab)
    return context


@require_safe
@page
def figure(request: HttpRequest, slug: str) -> HttpResponse:
    """The chart of another window, at the level of detail that fits it."""
    table = access_table(person(request), slug, Permission.VIEW)
    query = parse_query(request.GET)
    shown = _window(table, query)
    drawn = _figure(query, shown, overlay_lines(table, query.overlays))
    return JsonResponse({"figure": drawn, "summary": _summary(shown)})


@require_safe
@page
def rows(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    query = parse_query(request.GET)
    now_ms = _now_ms()
    since_ms, until_ms = bounds(query, now_ms=now_ms)
    history = history_reach(table, to_instant(since_ms))
    window = _fetch(table, query, since_ms, until_ms, history)
    shown = _Shown(
        history=history, window=window, since_ms=since_ms, until_ms=until_ms, now_ms=now_ms
    )
    if not window.rows and not query.cursor and _is_default(query):
        shown = _latest(table, query, now_ms, history) or shown
    context = {
        "table": table,
        "asked": query,
        "near": neighbours(since_ms, until_ms),
        **_overlays(overlay_lines(table, query.overlays)),
        "rows": shown.window.rows[:ROWS_SHOWN],
        "next_cursor": None if shown.is_older else window.next_cursor,
    }
    return render(request, "fragments/instants.html", context)


@require_safe
@page
def instant(request: HttpRequest, slug: str, requested_at: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    query = parse_query(request.GET)
    of_instant = _instant(request, table, requested_at, query.tab)
    context = {"table": table, "asked": query, **of_instant}
    return render(request, "fragments/instant.html", context)


def _window(table: Table, query: TimelineQuery) -> _Shown:
    """Of a long history counts come first: whoever knows that its instants are too many fetches a
    page of them alone.
    """
    now_ms = _now_ms()
    since_ms, until_ms = bounds(query, now_ms=now_ms)
    bin_ms = charts.bin_width_ms(since_ms, until_ms)
    edges = {"since": to_instant(since_ms), "until": to_instant(until_ms), **_filters(query)}
    history = history_reach(table, edges["since"])

    def counts() -> Density:
        by = query.lane_by.value
        return timeline_density(table, by=by, bin_ms=bin_ms, history=history, **edges)

    counted = counts() if history.is_counted else None
    is_crowded = counted is not None and counted.total > charts.MARKS_MAX
    most = ROWS_SHOWN if is_crowded else charts.MARKS_MAX
    window = timeline_window(table, limit=most, history=history, **edges)
    is_default = _is_default(query)
    if not window.rows and is_default and (latest := _latest(table, query, now_ms, history)):
        return latest
    if is_crowded or window.next_cursor:
        counted = counted or counts()
    elif is_default:
        since_ms, until_ms = fitted(
            [row.began_ms or now_ms for row in window.rows],
            since_ms=since_ms,
            until_ms=until_ms,
            now_ms=now_ms,
        )
    return _Shown(
        history=history,
        window=window,
        since_ms=since_ms,
        until_ms=until_ms,
        now_ms=now_ms,
        counted=counted if is_crowded or window.next_cursor else None,
        bin_ms=bin_ms,
    )


def _latest(
    table: Table, query: TimelineQuery, now_ms: int, history: HistoryReach
) -> _Shown | None:
    """The newest instants, whenever they were; None where the table has none."""
    whole = replace(history, first="")
    window = timeline_window(table, limit=LATEST_SHOWN, history=whole, **_filters(query))
    if not window.rows:
        return None
    first = min(row.began_ms or row.requested_ms for row in window.rows)
    last = max(row.ended_ms or row.requested_ms for row in window.rows)
    margin = max(1_000, (last - first) // 30)
    return _Shown(
        history=history,
        window=window,
        since_ms=first - margin,
        until_ms=last + margin,
        now_ms=now_ms,
        is_older=True,
    )


def _is_default(query: TimelineQuery) -> bool:
    """Whether the page chooses the window."""
    return query.is_following and not query.range_name


def _now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)


def _fetch(
    table: Table, query: TimelineQuery, since_ms: int, until_ms: int, history: HistoryReach
) -> TimelineWindow:
    """A page of rows, from the cursor on."""
    return timeline_window(
        table,
        since=to_instant(since_ms),
        until=to_instant(until_ms),
        limit=ROWS_SHOWN,
        cursor=query.cursor,
        history=history,
        **_filters(query),
    )


def _filters(query: TimelineQuery) -> dict[str, Any]:
    return {
        "actions": [query.action] if query.action else None,
        "states": [query.state] if query.state else None,
    }


def _overlays(lines: list[OverlayLine]) -> dict[str, Any]:
    """The twin's lines, each with the name of its overlay."""
    return {"overlay_lines": [(NAMES[line.overlay], line) for line in lines]}


def _figure(query: TimelineQuery, shown: _Shown, lines: list[OverlayLine]) -> Figure:
    drawn = _instants_figure(query, shown)
    drawn["layout"]["shapes"] += shapes(lines, since_ms=shown.since_ms, until_ms=shown.until_ms)
    return drawn


def _instants_figure(query: TimelineQuery, shown: _Shown) -> Figure:
    edges = {"since_ms": shown.since_ms, "until_ms": shown.until_ms, "now_ms": shown.now_ms}
    if shown.counted is None:
        return charts.gantt(shown.window.rows, lane_by=query.lane_by, **edges)
    cells = [
        charts.Cell(
            lane=cell.lane or charts.NO_LANE[query.lane_by],
            start_ms=cell.start_ms,
            count=cell.count,
            pending=cell.pending,
        )
        for cell in shown.counted.cells
    ]
    return charts.density(cells, lane_by=query.lane_by, bin_ms=shown.bin_ms, **edges)


def _summary(shown: _Shown) -> str:
    if shown.is_older:
        return f"the latest {len(shown.window.rows):,}; none in the last 24 h"
    if shown.counted is not None:
        each = age(shown.bin_ms / 1000)
        return (
            f"{shown.counted.total:,} in this range, counted by {each}; zoom in for single instants"
        )
    return f"{len(shown.window.rows):,} in this range"


def _rows(table: Table, query: TimelineQuery, shown: _Shown) -> dict[str, Any]:
    listed: list[InstantRow] = shown.window.rows[:ROWS_SHOWN]
    if shown.is_older:
        return {"rows": listed, "next_cursor": None}
    if query.cursor:
        here = _fetch(table, query, shown.since_ms, shown.until_ms, shown.history)
        return {"rows": here.rows, "next_cursor": here.next_cursor}
    has_more = len(shown.window.rows) > ROWS_SHOWN or shown.window.next_cursor
    last = f"{listed[-1].requested_at}.{listed[-1].action}" if has_more else None
    return {"rows": listed, "next_cursor": last}


def _instant(request: HttpRequest, table: Table, requested_at: str, tab: str) -> dict[str, Any]:
    """An instant that was never on the timeline has no detail; of one that was taken back the
    mirror's words are left.
    """
    user = person(request)
    access = row_access(user, table)
    detail = instant_detail(table, access, requested_at)
    operation_id = as_operation_id(detail.operation_ref) if detail else None
    operation = operation_detail(operation_id, user) if operation_id else None
    is_ours = operation is not None and operation.row.table_slug == table.slug
    is_gone = detail is not None and detail.row.is_undone
    tabs = TABS_OF_UNDONE if is_gone else TABS
    shown = tab if tab in tabs else tabs[0]
    context: dict[str, Any] = {
        "side": True,
        "detail": detail,
        "access": access,
        "requested_at": requested_at,
        "may_be_undone": detail is not None and not is_gone and detail.row.action not in STAYING,
        "conflict": conflict_of(table, access, requested_at),
        "operation": operation if is_ours else None,
        "tabs": tabs,
        "tab": shown,
    }
    if shown == "links" or detail is None or is_gone:
        context["links"] = instant_links(table, requested_at)
    elif shown != "summary":
        context |= _decoded(table, access, requested_at, is_whole=request.GET.get(ALL) == "files")
    return context


def _decoded(
    table: Table, access: RowAccess, requested_at: str, *, is_whole: bool
) -> dict[str, Any]:
    """The tabs that show what the instant's own files say."""
    try:
        return {
            "decoded": decoded_instant(table, access, requested_at),
            "files_shown": FILES_SHOWN,
            "files_slice": ":" if is_whole else f":{FILES_SHOWN}",
        }
    except ControlPlaneError as error:
        refusal = refusal_of(error)
        return {"decoded_problem": f"{refusal.title}. {refusal.text}"}
