"""Figures of the page Trends, as plain dicts: pure, no colours, no I/O. Days are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.mirror.queries.trends import TrendDay
from web.chart_marks import Figure
from web.figures import figure_layout

FIGURE_PX = 200


def per_day(days: Sequence[TrendDay], values: Sequence[float | None], unit: str) -> Figure:
    """Draw one bar per day."""
    bar = {
        "type": "bar",
        "x": _days(days),
        "y": list(values),
        "hovertemplate": f"%{{x}}<br>%{{y:,.4~g}} {unit}<extra></extra>",
        "meta": {"tone": "busy"},
    }
    return {"data": [bar], "layout": _layout(unit)}


def durations(
    days: Sequence[TrendDay], medians: Sequence[float | None], longest: Sequence[float | None]
) -> Figure:
    """Draw the median and the longest of the seconds of each day."""
    lines = [_line(days, medians, "median", "good"), _line(days, longest, "longest", "warn")]
    layout = _layout("seconds")
    layout["showlegend"] = True
    layout["legend"] = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    return {"data": lines, "layout": layout}


def _line(
    days: Sequence[TrendDay], values: Sequence[float | None], name: str, tone: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "line": {"width": 2},
        "connectgaps": False,
        "x": _days(days),
        "y": list(values),
        "hovertemplate": f"%{{x}}<br>{name} %{{y:,.3~g}} s<extra></extra>",
        "meta": {"tone": tone},
    }


def _days(days: Sequence[TrendDay]) -> list[str]:
    return [day.day for day in days]


def _layout(unit: str) -> dict[str, Any]:
    layout = figure_layout(height=FIGURE_PX)
    layout["margin"]["b"] = 44
    layout["bargap"] = 0.2
    layout["xaxis"] |= {"type": "date", "tickformat": "%-d %b", "nticks": 8}
    layout["yaxis"] |= {"rangemode": "tozero", "title": {"text": unit, "standoff": 6}}
    return layout
