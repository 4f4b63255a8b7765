"""Small figures beside the timeline's, as plain dicts: pure, no colours, no I/O.

SVG traces only, as everywhere. `meta.links` of a trace says where a click leads; text that comes
from a table is escaped, because Plotly reads a little HTML in labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Any, Protocol

from web.chart_marks import Figure
from web.charts import moment_text

LABEL_CHARS_MAX = 28
TILES_MAX = 400
ROWS_MAX = 40


class SchemaPoint(Protocol):
    @property
    def instant(self) -> str: ...
    @property
    def columns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Tile:
    """One rectangle of a treemap: its area is its bytes."""

    label: str
    bytes: int
    words: str = ""
    link: str = ""
    tone: str = ""
    size: str = ""
    """Its bytes in words, on the tile itself."""
    parent: str = ""
    """What it lies in, as a rectangle around it; empty for none."""


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    value: float


class Hourly(Protocol):
    @property
    def slug(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def commits(self) -> Sequence[int]: ...
    @property
    def conflicts(self) -> Sequence[int]: ...


def commits_and_conflicts(of: Hourly, hours: Sequence[datetime]) -> Figure:
    """Commits of each hour as bars that point up, conflicts as bars that point down. A click leads
    to the table.
    """
    starts = [hour.strftime("%Y-%m-%d %H:%M") for hour in hours]
    links = [f"/t/{of.slug}/"] * len(starts) if of.slug else []
    commits, conflicts = list(of.commits), list(of.conflicts)
    sums = f"{sum(commits)} commits, {sum(conflicts)} conflicts"
    title = f"<b>{escape(shortened(of.name))}</b>  {sums}"
    return {
        "data": [
            {
                "type": "bar",
                "name": "Commits",
                "x": starts,
                "y": commits,
                "meta": {"tone": "busy", "links": links},
                "hovertemplate": "%{x|%H:%M} UTC: %{y} commits<extra></extra>",
            },
            {
                "type": "bar",
                "name": "Conflicts",
                "x": starts,
                "y": [-count for count in conflicts],
                "customdata": [[count] for count in conflicts],
                "meta": {"tone": "bad", "links": links},
                "hovertemplate": "%{x|%H:%M} UTC: %{customdata[0]} conflicts<extra></extra>",
            },
        ],
        "layout": {
            "height": 150,
            "barmode": "relative",
            "bargap": 0.15,
            "showlegend": False,
            "margin": {"l": 34, "r": 8, "t": 26, "b": 22},
            "title": {"text": title, "x": 0, "xref": "container", "y": 0.97, "font": {"size": 13}},
            "xaxis": {
                "type": "date",
                "range": [starts[0], (hours[-1] + timedelta(hours=1)).strftime("%Y-%m-%d %H:%M")],
                "tickformat": "%H:%M",
                "nticks": 5,
                "fixedrange": True,
            },
            "yaxis": {"nticks": 3, "fixedrange": True, "rangemode": "tozero"},
        },
    }


def column_count(versions: Sequence[SchemaPoint]) -> Figure:
    """A step line; versions come newest first."""
    ordered = list(reversed(versions))
    trace: Figure = {
        "type": "scatter",
        "mode": "lines+markers",
        "line": {"shape": "hv", "width": 2},
        "marker": {"size": 7},
        "x": [moment_text(one.instant) for one in ordered],
        "y": [one.columns for one in ordered],
        "customdata": [[one.instant] for one in ordered],
        "hovertemplate": "%{y} columns<br>since %{customdata[0]}<extra></extra>",
        "meta": {"tone": "busy"},
    }
    most = max((one.columns for one in ordered), default=1)
    layout = figure_layout(height=240)
    layout["xaxis"] |= {"type": "date"}
    layout["yaxis"] |= {"range": [0, most * 1.15], "rangemode": "tozero", "dtick": _step(most)}
    return {"data": [trace], "layout": layout}


def treemap(tiles: Iterable[Tile], *, name: str, height: int = 300) -> Figure:
    """The biggest tiles; what is left is one tile more, so that the whole stays the whole."""
    ordered = sorted((tile for tile in tiles if tile.bytes > 0), key=lambda tile: -tile.bytes)
    shown, rest = ordered[:TILES_MAX], ordered[TILES_MAX:]
    if rest:
        total = sum(tile.bytes for tile in rest)
        shown.append(Tile(f"{len(rest)} more", total))
    around = sorted({tile.parent for tile in shown if tile.parent})
    sums = [sum(tile.bytes for tile in shown if tile.parent == name) for name in around]
    trace: Figure = {
        "type": "treemap",
        "name": name,
        "branchvalues": "total",
        "ids": [f"in {name}" for name in around] + [str(at) for at in range(len(shown))],
        "labels": [escape(shortened(name)) for name in around]
        + [escape(shortened(tile.label)) or "(not partitioned)" for tile in shown],
        "parents": [""] * len(around)
        + [f"in {tile.parent}" if tile.parent else "" for tile in shown],
        "values": sums + [tile.bytes for tile in shown],
        "customdata": [
            [escape(name), f"{total:,} bytes"] for name, total in zip(around, sums, strict=True)
        ]
        + [[escape(tile.label), escape(tile.words)] for tile in shown],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        "text": [""] * len(around) + [tile.size for tile in shown],
        "textinfo": "label+text" if any(tile.size for tile in shown) else "label",
        "tiling": {"pad": 1},
        "pathbar": {"visible": False},
        # Only partitions have a headline; without one its room would be empty.
        "marker": {"pad": {"t": 20 if around else 2, "l": 2, "r": 2, "b": 2}},
        "meta": {
            "links": [""] * len(around) + [tile.link for tile in shown],
            "tones": [""] * len(around) + [tile.tone for tile in shown],
        },
    }
    layout = figure_layout(height=height)
    layout["margin"] = {"l": 8, "r": 8, "t": 4, "b": 8}
    # A label that does not fit is left to the hover text and to the table twin.
    layout["uniformtext"] = {"minsize": 10, "mode": "hide"}
    return {"data": [trace], "layout": layout}


def histogram(bars: Sequence[Bar], *, unit: str, height: int = 240) -> Figure:
    """Bins counted on the server, one bar each; horizontal, so that their names have room."""
    trace: Figure = {
        "type": "bar",
        "orientation": "h",
        "y": [escape(bar.label) for bar in bars],
        "x": [bar.value for bar in bars],
        "hovertemplate": f"%{{y}}<br>%{{x}} {unit}<extra></extra>",
        "meta": {"tone": "busy"},
    }
    layout = figure_layout(height=height)
    layout["bargap"] = 0.25
    layout["xaxis"] |= {"rangemode": "tozero"}
    layout["yaxis"] |= {"type": "category", "autorange": "reversed", "showgrid": False}
    return {"data": [trace], "layout": layout}


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[int]],
    *,
    words: Sequence[Sequence[str]],
) -> Figure:
    """Rows by instants, each cell with its words; an empty cell is nothing, not zero."""
    trace: Figure = {
        "type": "heatmap",
        "x": [escape(one) for one in columns],
        "y": [escape(shortened(one)) or "(not partitioned)" for one in rows],
        "z": [[value or None for value in line] for line in values],
        "text": [list(line) for line in words],
        "hovertemplate": "%{y}<br>%{x}<br>%{text}<extra></extra>",
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 2,
        "showscale": False,
    }
    layout = figure_layout(height=max(160, min(len(rows), ROWS_MAX) * 22 + 80))
    layout["xaxis"] |= _instants_axis(columns)
    layout["yaxis"] |= {"type": "category", "autorange": "reversed"}
    return {"data": [trace], "layout": layout}


def instants_layout(instants: Sequence[str], *, height: int) -> Figure:
    """Layout of bars side by side, one place per instant, a legend above."""
    layout = figure_layout(height=height)
    layout |= {
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "barmode": "group",
        "bargap": 0.2,
    }
    layout["xaxis"] |= _instants_axis(instants)
    layout["yaxis"] |= {"rangemode": "tozero"}
    return layout


def _instants_axis(instants: Sequence[str]) -> dict[str, Any]:
    """One place per instant, whatever lies between them; some of them with their time of day."""
    ticks = list(instants[:: max(1, len(instants) // 6)])
    return {
        "type": "category",
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": [f"{at[8:10]}:{at[10:12]}:{at[12:14]}" for at in ticks],
    }


def boxes(groups: Sequence[tuple[str, Sequence[float]]], *, unit: str) -> Figure:
    """One horizontal box per group, with its points beside it."""
    data = [
        {
            "type": "box",
            "orientation": "h",
            "name": escape(name),
            "x": list(values),
            "boxpoints": "all",
            "jitter": 0.4,
            "pointpos": 0,
            "hovertemplate": f"%{{x:.2f}} {unit}<extra>{escape(name)}</extra>",
            "line": {"width": 1.5},
            "meta": {"tone": "busy"},
        }
        for name, values in groups
    ]
    layout = figure_layout(height=max(150, len(groups) * 46 + 70))
    layout["margin"]["b"] = 52
    layout["xaxis"] |= {"rangemode": "tozero", "title": {"text": unit, "standoff": 4}}
    layout["yaxis"] |= {"autorange": "reversed"}
    return {"data": data, "layout": layout}


def shortened(text: str, *, length_max: int = LABEL_CHARS_MAX) -> str:
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def figure_layout(*, height: int) -> dict[str, Any]:
    """Return the layout that all figures share."""
    return {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 36},
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "xaxis": {"fixedrange": True, "zeroline": False, "automargin": True},
        "yaxis": {"fixedrange": True, "zeroline": False, "automargin": True},
    }


def _step(most: int) -> int:
    """Columns are whole: ticks are too."""
    return max(1, round(most / 5))
