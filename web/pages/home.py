"""Home: what happens now over all tables, what needs a person, and what people did. It shows only
tables that the reader sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from controlplane.home.attention import AttentionNeed
from controlplane.home.board import LIMITS, MULTIPLES, HomeBoard, HomeCounts, HomeLook
from controlplane.home.people import RecentAction
from controlplane.tables.access import Permission, may_everywhere, may_see_some
from web.additions import first_step, note_seen_tables
from web.audit_words import action_words, is_result_marked
from web.chart_marks import Figure
from web.figures import commits_and_conflicts
from web.list_parts import ListPart, ListWindow, build_part, read_window
from web.refusals import page, person

CHARTS: Final = MULTIPLES + 1
ROWS_SHOWN: Final = {**LIMITS, "needs": 8, "actions": 6}
"""Rows of each list, unless the address asks for all of one."""
_OF_TABLES = ("q", "namespace", "after")
"""What stood in the address of the list of tables when it was the first page."""


@dataclass(frozen=True, slots=True)
class NeedLine:
    need: AttentionNeed
    url: str
    others_url: str
    """Where others of its kind are listed."""


@dataclass(frozen=True, slots=True)
class FigureLine:
    """One of the five numbers."""

    name: str
    count: int
    is_more: bool
    """There are more than were counted."""
    tone: str
    url: str
    about: str
    """What is counted."""


@dataclass(frozen=True, slots=True)
class DeedLine:
    deed: RecentAction
    words: str
    is_marked: bool
    """Its result is shown: it failed, or was refused."""


@dataclass(frozen=True, slots=True)
class HourFigure:
    """A chart, or the empty place of one."""

    id: str
    traces: Figure


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def home(request: HttpRequest) -> HttpResponse:
    """An address of the list of tables, as it was before there was a Home, leads there."""
    if any(name in request.GET for name in _OF_TABLES):
        return redirect(f"{reverse('tables')}?{request.GET.urlencode()}")
    look = _look(request)
    context = {"page": "home", **_board(request, look), **_hours(look)}
    return render(request, "pages/home.html", context)


@require_safe
@page
def home_part(request: HttpRequest) -> HttpResponse:
    return render(request, "fragments/home.html", _board(request, _look(request)))


@require_safe
@page
def home_hours(request: HttpRequest) -> HttpResponse:
    """The numbers of the charts, and the table of them."""
    return render(request, "fragments/home_hours.html", _hours(_look(request)))


def _look(request: HttpRequest) -> HomeLook:
    user = person(request)
    if not may_see_some(user):
        raise PermissionDenied("this requires the viewer role")
    limits = {
        name: window.stop + 1
        for name, window in _windows(request.GET).items()
        if window.is_whole or name != "needs"  # Without a limit, needs of a kind are one line.
    }
    return HomeLook(user, timezone.now(), limits)


def _windows(query: QueryDict) -> dict[str, ListWindow]:
    return {name: read_window(query, name, limit) for name, limit in ROWS_SHOWN.items()}


def _lists(board: HomeBoard, query: QueryDict) -> dict[str, ListPart[Any]]:
    """Return the rows of each list that the address asks for."""
    needs = [NeedLine(need, _url(need), _others_url(need)) for need in board.needs]
    deeds = [
        DeedLine(deed, action_words(deed.what), is_result_marked(deed.result))
        for deed in board.recent_actions
    ]
    lists: dict[str, tuple[Sequence[Any], int | None]] = {
        "needs": (needs, board.needs_total),
        "writers": (board.writers, board.writers_total),
        "conflicts": (board.conflicts, None),
        "markers": (board.markers.rows, board.markers.instants),
        "streams": (board.streams.rows, board.streams.total),
        "operations": (board.operations, board.operations_total),
        "actions": (deeds, None),
    }
    return {
        name: build_part(window, lists[name][0][window.start :], total=lists[name][1])
        for name, window in _windows(query).items()
    }


def _board(request: HttpRequest, look: HomeLook) -> dict[str, Any]:
    board = look.board()
    note_seen_tables(request, frozenset(line.slug for line in look.lines))
    return {
        "board": board,
        "figures": _figures(board.figures),
        "lists": _lists(board, request.GET),
        "first_step": first_step(),
        "may_register": may_everywhere(look.user, Permission.ADMINISTER),
    }


def _hours(look: HomeLook) -> dict[str, Any]:
    board = look.hours()
    figures = [commits_and_conflicts(of, board.hours) for of in board.tables]
    empty: Figure = {"data": [], "layout": {}}
    return {
        "hour_board": board,
        "hour_figures": [
            HourFigure(f"hours-{at}", figures[at] if at < len(figures) else empty)
            for at in range(CHARTS)
        ],
        "hours": [
            (hour, [(of.commits[at], of.conflicts[at]) for of in board.tables])
            for at, hour in reversed(list(enumerate(board.hours)))
        ],
    }


def _figures(figures: HomeCounts) -> list[FigureLine]:
    tables = reverse("tables")
    lines = (
        ("Late tables", figures.late_tables, False, "warn", f"{tables}?show=late",
         "The newest commit is older than the freshness target, or the table is out of sync."),
        ("Suspect writers", figures.suspect_writers, False, "warn", f"{tables}?show=suspects",
         "They missed heartbeats and expire soon."),
        ("Failed operations, 24 h", figures.broken_operations, figures.is_broken_cut, "bad",
         f"{reverse('operations')}?state=unanswered",
         "Failed, lost or in an unknown state, and not rerun."),
        ("Firing alerts", figures.firing_alerts, figures.is_alerts_cut, "bad", reverse("alerts"),
         "Failing health checks that are not silenced."),
        ("Archiving blocked", figures.blocked_archiving, False, "warn", f"{tables}?show=archiving",
         "A pending instant, a savepoint or a writer keeps old commits on the timeline."),
    )  # fmt: skip
    return [
        FigureLine(name, count, is_more, tone if count else "", url, about)
        for name, count, is_more, tone, url, about in lines
    ]


def _url(need: AttentionNeed) -> str:
    match need.page:
        case "operation" if need.operation:
            return reverse("operation", args=[need.slug, need.operation])
        case "approval" if need.operation:
            return reverse("approval", args=[need.operation])
        case name:
            return reverse(name, args=[need.slug])


def _others_url(need: AttentionNeed) -> str:
    shown = {"mirror": "unread", "suspect-writer": "suspects", "event-conflict": "conflicts"}
    query = urlencode({"show": shown.get(need.check, f"check.{need.check}")})
    return f"{reverse('tables')}?{query}"
