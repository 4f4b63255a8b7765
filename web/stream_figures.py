"""Figures of the Streams page, as plain dicts: pure, no colours, no I/O. SVG traces only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Protocol

from web.chart_marks import Figure
from web.figures import shortened

TONES = ("busy", "warn", "good", "undone", "bad", "quiet")
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
DELAYS_S = (1, 10, 60, 600, 3_600, 86_400, 7 * 86_400)
DELAY_NAMES = (
    "under 1 s",
    "1 to 10 s",
    "10 s to 1 min",
    "1 to 10 min",
    "10 min to 1 h",
    "1 h to 1 day",
    "1 to 7 days",
    "over 7 days",
)


class Arrival(Protocol):
    @property
    def group(self) -> str: ...
    @property
    def arrived_ms(self) -> int: ...
    @property
    def greatest_ms(self) -> int | None: ...
    @property
    def least_ms(self) -> int | None: ...
    @property
    def rows(self) -> int: ...


class Point(Protocol):
    @property
    def at(self) -> datetime: ...
    @property
    def complete_pct(self) -> float: ...
    @property
    def by_group(self) -> Mapping[str, float]: ...


class Column(Protocol):
    @property
    def group(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def share_pct(self) -> list[float]: ...


class Map(Protocol):
    @property
    def starts_ms(self) -> list[int]: ...
    @property
    def width_ms(self) -> int: ...
    @property
    def rows(self) -> list[int]: ...
    @property
    def columns(self) -> Sequence[Column]: ...


def watermark(arrivals: Sequence[Arrival], streams: Sequence[str]) -> Figure | None:
    """When events happened against when they arrived: the highest time each stream has reached."""
    timed = [one for one in arrivals if one.greatest_ms is not None]
    if not timed:
        return None
    data = []
    for number, name in enumerate(streams):
        own = [one for one in timed if one.group == name]
        if own:
            data.append(
                stream_line(
                    number,
                    name,
                    [utc_text(one.arrived_ms) for one in own],
                    [utc_text(one) for one in _highest(own)],
                    "arrived %{x}<br>events up to %{y}",
                )
            )
    first, last = timed[0].arrived_ms, timed[-1].arrived_ms
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "no delay",
            "x": [utc_text(first), utc_text(last)],
            "y": [utc_text(first), utc_text(last)],
            "line": {"width": 1, "dash": "dot"},
            "hoverinfo": "skip",
            "meta": {"tone": "quiet"},
        }
    )
    layout = line_layout(300, "arrival, UTC")
    layout["xaxis"] |= {"type": "date"}
    layout["yaxis"] |= {"type": "date", "title": {"text": "event time, UTC", "standoff": 4}}
    return {"data": data, "layout": layout}


def lag(arrivals: Sequence[Arrival], streams: Sequence[str]) -> Figure | None:
    """How far behind the arrival each stream's highest event was."""
    timed = [one for one in arrivals if one.greatest_ms is not None]
    if not timed:
        return None
    gaps = {
        name: [
            (one.arrived_ms, (one.arrived_ms - highest) / 1000)
            for own in ([one for one in timed if one.group == name],)
            for one, highest in zip(own, _highest(own), strict=True)
        ]
        for name in streams
    }
    return lag_lines(gaps, streams, "behind")


def delays(arrivals: Iterable[Arrival], streams: Sequence[str]) -> dict[str, list[int]]:
    """Rows by how long before its arrival the oldest event of their commit happened, per stream."""
    counts = {name: [0] * len(DELAY_NAMES) for name in streams}
    for commit in arrivals:
        if commit.least_ms is not None and commit.group in counts:
            late_s = (commit.arrived_ms - commit.least_ms) / 1000
            counts[commit.group][sum(late_s >= edge for edge in DELAYS_S)] += commit.rows
    return counts


def lateness(counts: Mapping[str, Sequence[int]]) -> Figure | None:
    if not any(map(any, counts.values())):
        return None
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": escape(name),
            "y": list(DELAY_NAMES),
            "x": list(own),
            "hovertemplate": "%{y}<br>%{x} rows<extra>" + escape(name) + "</extra>",
            "meta": {"tone": TONES[number % len(TONES)]},
            "marker": {"pattern": {"shape": ("", "/", ".", "x")[number % 4], "solidity": 0.35}},
        }
        for number, (name, own) in enumerate(counts.items())
    ]
    layout = line_layout(300, "rows")
    layout |= {"barmode": "stack", "bargap": 0.25}
    layout["yaxis"] |= {"type": "category", "autorange": "reversed", "showgrid": False}
    return {"data": data, "layout": layout}


def completeness(points: Sequence[Point], streams: Sequence[str]) -> Figure | None:
    if len(points) < 2:
        return None
    at = [one.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") for one in points]
    data = [
        stream_line(
            number, name, at, [one.by_group.get(name) for one in points], "%{x}<br>%{y:.1f} %"
        )
        for number, name in enumerate(streams)
    ]
    data.append(
        {
            **stream_line(
                5, "complete", at, [one.complete_pct for one in points], "%{x}<br>%{y:.1f} %"
            ),
            "line": {"width": 3},
        }
    )
    layout = line_layout(260, "UTC")
    layout["xaxis"] |= {"type": "date"}
    layout["yaxis"] |= {"range": [0, 103], "ticksuffix": " %"}
    return {"data": data, "layout": layout}


def coverage(measured: Map) -> Figure:
    """Stream and column by time: the share of the rows that have a value."""
    names = [f"{one.group} · {one.column}" for one in measured.columns]
    trace: Figure = {
        "type": "heatmap",
        "x": [utc_text(start + measured.width_ms // 2) for start in measured.starts_ms],
        "y": [escape(shortened(name)) for name in names],
        "z": [
            [share if of else None for share, of in zip(one.share_pct, measured.rows, strict=True)]
            for one in measured.columns
        ],
        "customdata": [measured.rows for _ in names],
        "zmin": 0,
        "zmax": 100,
        "hovertemplate": "%{y}<br>%{x}<br>%{z:.0f} % of %{customdata} rows<extra></extra>",
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 2,
        "showscale": False,
    }
    layout = line_layout(max(150, len(names) * 24 + 70), "")
    layout["showlegend"] = False
    layout["xaxis"] |= {"type": "date"}
    layout["yaxis"] |= {"type": "category", "autorange": "reversed"}
    return {"data": [trace], "layout": layout}


def stream_line(number: int, name: str, x: list[Any], y: list[Any], hover: str) -> Figure:
    """A stream keeps its hue, dash and symbol in all figures."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape(shortened(name)),
        "x": x,
        "y": y,
        "line": {"width": 2, "dash": _DASHES[number % len(_DASHES)]},
        "marker": {"size": 6, "symbol": _SYMBOLS[number % len(_SYMBOLS)]},
        "hovertemplate": hover + "<extra>" + escape(shortened(name)) + "</extra>",
        "meta": {"tone": TONES[number % len(TONES)]},
    }


def lag_lines(
    points: Mapping[str, Sequence[tuple[int, float]]], streams: Sequence[str], words: str
) -> Figure:
    """Seconds of each stream by the time in ms of their arrival, in a unit that fits; `words` say
    what they are.
    """
    most_s = max((abs(lag_s) for own in points.values() for _, lag_s in own), default=0.0)
    unit, per = unit_of(most_s)
    data = [
        stream_line(
            number,
            name,
            [utc_text(at) for at, _ in points[name]],
            [round(lag_s / per, 3) for _, lag_s in points[name]],
            f"%{{x}}<br>%{{y}} {unit} {words}",
        )
        for number, name in enumerate(streams)
        if points[name]
    ]
    return by_arrival(data, unit)


def by_arrival(data: list[Figure], unit: str) -> Figure:
    """The figure of these lines, with the time of arrival from left to right."""
    layout = line_layout(260, "arrival, UTC")
    layout["xaxis"] |= {"type": "date"}
    layout["yaxis"] |= {"title": {"text": unit, "standoff": 4}, "rangemode": "tozero"}
    return {"data": data, "layout": layout}


def _highest(own: Sequence[Arrival]) -> list[int]:
    highest: list[int] = []
    for commit in own:
        assert commit.greatest_ms is not None
        highest.append(max(commit.greatest_ms, highest[-1] if highest else commit.greatest_ms))
    return highest


def unit_of(most_s: float) -> tuple[str, float]:
    """A unit that fits, and its seconds."""
    for unit, per in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if most_s >= 2 * per:
            return unit, per
    return "seconds", 1.0


def utc_text(milliseconds: int) -> str:
    """A time as Plotly reads it: text, for numbers are shown in the reader's time zone."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def line_layout(height: int, x_title: str) -> dict[str, Any]:
    """Layout of a figure with a line for each stream."""
    return {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 44},
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
        "dragmode": False,
        "xaxis": {
            "fixedrange": True,
            "zeroline": False,
            "automargin": True,
            "title": {"text": x_title, "standoff": 4},
        },
        "yaxis": {"fixedrange": True, "zeroline": False, "automargin": True},
    }
