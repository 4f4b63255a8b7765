"""Home: what needs a person over all tables, what runs, and what was done. Everything on it is of
the tables that the reader sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from controlplane.home.attention import Need
from controlplane.home.board import Figures, Multiple, home_board
from controlplane.tables.access import Permission, may_everywhere, may_see_some
from web.additions import first_step, note_seen_tables
from web.bars import Bars, bars
from web.refusals import page, person

BARS_HEIGHT = 40
CONFLICTS_HEIGHT = 16
_OF_TABLES = ("q", "namespace", "after")
"""What stood in the address of the list of tables when it was the first page."""


@dataclass(frozen=True, slots=True)
class NeedLine:
    need: Need
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
    words: str
    """What is counted, for whoever wonders."""


@dataclass(frozen=True, slots=True)
class MultipleLine:
    multiple: Multiple
    commits: Bars
    conflicts: Bars

    @property
    def label(self) -> str:
        """What the drawing says to those who do not see it."""
        return (
            f"{self.multiple.name}: {self.commits.total} commits, at most {self.commits.peak} in "
            f"an hour; {self.conflicts.total} conflicts. The table below has the numbers."
        )


@require_safe
@page
def home(request: HttpRequest) -> HttpResponse:
    """An address of the list of tables, as it was before there was a Home, leads there."""
    if any(name in request.GET for name in _OF_TABLES):
        return redirect(f"{reverse('tables')}?{request.GET.urlencode()}")
    return render(request, "pages/home.html", {"page": "home", **_board(request)})


@require_safe
@page
def home_part(request: HttpRequest) -> HttpResponse:
    return render(request, "fragments/home.html", _board(request))


def _board(request: HttpRequest) -> dict[str, Any]:
    user = person(request)
    if not may_see_some(user):
        raise PermissionDenied("this needs the role viewer")
    board = home_board(user, timezone.now())
    note_seen_tables(request, board.tables)
    return {
        "board": board,
        "figures": _figures(board.figures),
        "needs": [NeedLine(need, _url(need), _others_url(need)) for need in board.needs],
        "multiples": [_drawn(multiple) for multiple in board.multiples],
        "hours": [
            (hour, [(of.commits[at], of.conflicts[at]) for of in board.multiples])
            for at, hour in reversed(list(enumerate(board.hours)))
        ],
        "first_step": first_step(),
        "may_register": may_everywhere(user, Permission.ADMINISTER),
    }


def _figures(figures: Figures) -> list[FigureLine]:
    tables = reverse("tables")
    broken = f"{reverse('operations')}?state=unanswered"
    lines = (
        ("Late tables", figures.late_tables, "warn", f"{tables}?show=late",
         "past the age of commits that is promised, or not read for a while"),
        ("Open conflicts, 24 h", figures.open_conflicts, "bad", f"{tables}?show=conflicts",
         "writes that lost and whose writers committed nothing since"),
        ("Suspect writers", figures.suspect_writers, "warn", f"{tables}?show=suspects",
         "they missed heartbeats and are given up soon"),
        ("Failed operations, 24 h", figures.broken_operations, "bad", broken,
         "without a known end among them; nobody ran them again"),
        ("Archiving blocked", figures.blocked_archiving, "warn", f"{tables}?show=archiving",
         "tables whose timeline grows because something must not be passed"),
    )  # fmt: skip
    return [
        FigureLine(
            name, count, figures.is_broken_cut and url == broken, tone if count else "", url, words
        )
        for name, count, tone, url, words in lines
    ]


def _url(need: Need) -> str:
    match need.page:
        case "operation" if need.operation:
            return reverse("operation", args=[need.slug, need.operation])
        case "approval" if need.operation:
            return reverse("approval", args=[need.operation])
        case name:
            return reverse(name, args=[need.slug])


def _others_url(need: Need) -> str:
    shown = {"mirror": "unread", "suspect-writer": "suspects", "event-conflict": "conflicts"}
    query = urlencode({"show": shown.get(need.check, f"check.{need.check}")})
    return f"{reverse('tables')}?{query}"


def _drawn(multiple: Multiple) -> MultipleLine:
    return MultipleLine(
        multiple,
        bars(multiple.commits, height=BARS_HEIGHT),
        bars(multiple.conflicts, height=CONFLICTS_HEIGHT),
    )
