"""Figures of the page Markers, as plain dicts: pure, no colours, no I/O. Times are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from controlplane.operations.queries import BatchTotals, MarkerServerStatus, SampleRow
from controlplane.writers.markers import MarkerDirectoryRow
from web.chart_marks import Figure
from web.figures import figure_layout, shortened

FIGURE_PX = 220
INSTANTS_MAX = 12
"""Bars of pending instants, the largest first. The table has every one."""


def queue_depth(samples: Sequence[SampleRow]) -> Figure:
    """Draw a line with a gap at each moment without an answer."""
    depths = [sample.queue_depth if sample.up else None for sample in samples]
    line = _line(samples, depths, "queue depth", "busy", "%{y} names waiting")
    return _over_time([line] if samples else [], "names waiting")


def latencies(samples: Sequence[SampleRow]) -> Figure:
    """Draw p50 and p95 once the server has answered a request."""
    lines = [
        _line(samples, values, name, tone, f"{name} %{{y:.1f}} ms")
        for name, tone, values in (
            ("p50", "good", [sample.p50_ms for sample in samples]),
            ("p95", "warn", [sample.p95_ms for sample in samples]),
        )
        if any(value is not None for value in values)
    ]
    return _over_time(lines, "ms", has_legend=True)


def batch_sizes(status: MarkerServerStatus) -> list[tuple[str, int]]:
    """Count batches by their number of markers, such as `4 to 7`, the smallest first."""
    counts = status.latest.batch_sizes if status.latest else {}
    ordered = sorted(counts.items(), key=lambda size: _least(size[0]))
    return [(name.replace("-", " to "), count) for name, count in ordered]


def size_bars(sizes: Sequence[tuple[str, int]]) -> Figure:
    names = [name for name, _ in sizes]
    bar = _bar(names, [count for _, count in sizes], "%{x} markers: %{y} batches")
    return _bars([bar] if sizes else [], "markers per batch", "batches")


def compare_batches(periods: Sequence[tuple[str, BatchTotals]]) -> Figure:
    """Draw batches next to the files that direct markers would have created, by period."""
    names = [name for name, _ in periods]
    bars = [
        _bar(names, [totals.batches for _, totals in periods], "%{y:,} batches", "busy", "batches"),
        _bar(
            names,
            [totals.markers for _, totals in periods],
            "%{y:,} files",
            "quiet",
            "direct markers",
        ),
    ]
    return _bars(bars if periods else [], "", "writes to storage", has_legend=True)


def pending_markers(directories: Sequence[MarkerDirectoryRow]) -> Figure:
    """Draw one bar per instant, named by its writer and start."""
    largest = sorted(directories, key=lambda row: -row.markers)[:INSTANTS_MAX]
    names = [f"{shortened(row.writer or 'not named')}, {_clock(row.instant)}" for row in largest]
    bar: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "y": [escape(name) for name in names],
        "x": [row.markers for row in largest],
        "customdata": [[row.instant, row.layout] for row in largest],
        "hovertemplate": "%{x:,} markers, %{customdata[1]}<br>%{customdata[0]}<extra></extra>",
        "meta": {"tone": "busy"},
    }
    layout = figure_layout(height=max(FIGURE_PX, 26 * len(largest) + 60))
    layout["xaxis"] |= {"rangemode": "tozero", "title": {"text": "markers"}}
    layout["yaxis"] |= {"type": "category", "autorange": "reversed", "showgrid": False}
    return {"data": [bar] if largest else [], "layout": layout}


def fill_of_files(directories: Sequence[MarkerDirectoryRow]) -> Figure:
    """Draw the markers in MARKERS0, MARKERS1, …, stacked by instant."""
    largest = sorted((row for row in directories if row.files), key=lambda row: -row.markers)
    bars = [
        _bar(
            [file.name.removeprefix("MARKERS") for file in row.files],
            [file.markers for file in row.files],
            f"MARKERS%{{x}}: %{{y}}<br>{escape(shortened(row.writer))}, {row.instant}",
        )
        for row in largest[:INSTANTS_MAX]
    ]
    figure = _bars(bars, "number of the MARKERS file", "markers")
    figure["layout"]["barmode"] = "stack"
    return figure


def _line(
    samples: Sequence[SampleRow], values: Sequence[float | None], name: str, tone: str, hover: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "line": {"width": 2, "shape": "hv"},
        "connectgaps": False,
        "x": [f"{sample.at:%Y-%m-%d %H:%M:%S}" for sample in samples],
        "y": list(values),
        "hovertemplate": f"%{{x|%H:%M:%S}} UTC<br>{hover}<extra></extra>",
        "meta": {"tone": tone},
    }


def _bar(
    names: Sequence[str], counts: Sequence[int], hover: str, tone: str = "busy", name: str = ""
) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": [escape(name) for name in names],
        "y": list(counts),
        "hovertemplate": f"{hover}<extra></extra>",
        "meta": {"tone": tone},
    }


def _over_time(data: list[dict[str, Any]], unit: str, *, has_legend: bool = False) -> Figure:
    layout = _build_layout("UTC", unit, has_legend=has_legend)
    layout["xaxis"] |= {"type": "date", "tickformat": "%H:%M:%S", "nticks": 6}
    return {"data": data, "layout": layout}


def _bars(data: list[dict[str, Any]], across: str, up: str, *, has_legend: bool = False) -> Figure:
    layout = _build_layout(across, up, has_legend=has_legend)
    layout["xaxis"] |= {"type": "category"}
    layout["bargap"] = 0.3
    return {"data": data, "layout": layout}


def _build_layout(across: str, up: str, *, has_legend: bool) -> dict[str, Any]:
    layout = figure_layout(height=FIGURE_PX)
    layout["margin"]["b"] = 44
    layout["showlegend"] = has_legend
    layout["legend"] = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    layout["xaxis"] |= {"title": {"text": across, "standoff": 6}}
    layout["yaxis"] |= {"rangemode": "tozero", "title": {"text": up, "standoff": 6}}
    return layout


def _clock(instant: str) -> str:
    return f"{instant[8:10]}:{instant[10:12]}:{instant[12:14]}"


def _least(name: str) -> int:
    least = name.partition("-")[0]
    return int(least) if least.isdecimal() else 0
