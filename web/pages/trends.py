"""Trends of a table: rows, bytes, commit duration, gaps between commits and event lag by day."""

from __future__ import annotations

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.mirror.queries.trends import load_trends
from controlplane.tables.access import Permission, access_table
from controlplane.tables.row_access import row_access
from web import trend_figures
from web.refusals import page, person

PERIODS = (7, 30, 90)
PERIOD = 30


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def trends(request: HttpRequest, slug: str) -> HttpResponse:
    """Five figures and the table with their numbers."""
    table = access_table(person(request), slug, Permission.VIEW)
    text = request.GET.get("days", "")
    period = int(text) if text.isdecimal() and int(text) in PERIODS else PERIOD
    trend = load_trends(table, period, row_access(person(request), table))
    days = trend.days
    context = {
        "page": "trends",
        "table": table,
        "period": period,
        "periods": PERIODS,
        "is_cut": trend.is_cut,
        "has_commits": any(day.commits for day in days),
        "days": [day for day in reversed(days) if day.commits],
        "rows_figure": trend_figures.per_day(days, [day.rows for day in days], "rows"),
        "bytes_figure": trend_figures.per_day(days, [day.bytes / 1_000_000 for day in days], "MB"),
        "durations_figure": trend_figures.durations(
            days, [day.duration_median_s for day in days], [day.duration_max_s for day in days]
        ),
        "event_lag": trend.event_lag,
        "lags_figure": trend_figures.durations(
            days, [day.event_lag_median_s for day in days], [day.event_lag_max_s for day in days]
        ),
        "gaps_figure": trend_figures.per_day(
            days, [None if day.gap_max_s is None else day.gap_max_s / 60 for day in days], "minutes"
        ),
    }
    return render(request, "pages/trends.html", context)
