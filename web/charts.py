"""Timeline rows to Plotly figures, built as plain dicts: pure, no colours (the page takes those
from its theme), no I/O.

Only SVG traces (`bar`, `heatmap`): WebGL ones need `eval`, which the content policy refuses. Up to
`MARKS_MAX` instants are bars; more become a heatmap of lane by time, so the size of an answer never
depends on the age of a table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from html import escape
from itertools import groupby
from typing import Any, Protocol

from controlplane.mirror.density import lane_name
from controlplane.mirror.selectors import ACTIONS

MARKS_MAX = 3_000
SUB_LANES_MAX = 6
"""Bars of one lane that overlap in time are stacked at most this high; further ones share the last
place.
"""
BINS_MAX = 300
_BIN_WIDTHS_MS = tuple(
    1_000 * seconds
    for seconds in (
        1,
        2,
        5,
        10,
        15,
        30,
        60,
        120,
        300,
        600,
        900,
        1800,
        3600,
        7200,
        10800,
        21600,
        43200,
        86400,
    )
)
_ROW_PX = 22
_LANE_GAP = 0.5
_THIN_BAR_SHARE = 1 / 900
"""The part of the window that the narrowest bar takes when sub-lanes are packed: about one pixel.
"""

Figure = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LaneBy(StrEnum):
    ACTION = "action"
    WRITER = "writer"
    STREAM = "stream"


class Mark(Protocol):
    """What a bar needs to know of an instant; `controlplane.mirror.selectors.InstantRow` has it."""

    @property
    def requested_at(self) -> str: ...
    @property
    def requested_ms(self) -> int: ...
    @property
    def completed_ms(self) -> int | None: ...
    @property
    def action(self) -> str: ...
    @property
    def operation_type(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def writer(self) -> str | None: ...
    @property
    def stream(self) -> str | None: ...
    @property
    def rows(self) -> int | None: ...
    @property
    def is_archived(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Cell:
    """How many instants of one lane began in one time bin."""

    lane: str
    start_ms: int
    count: int
    pending: int


_STATE_ORDER = ("archived", "completed", "inflight", "requested", "rolled_back", "failed")
_HATCH = {"inflight": "/", "requested": ".", "failed": "x", "rolled_back": "\\"}
NO_LANE = {LaneBy.WRITER: "writer not named", LaneBy.STREAM: "no stream", LaneBy.ACTION: "?"}


def lane_of(mark: Mark, by: LaneBy) -> str:
    action = lane_name(mark.action, mark.operation_type)
    value = {LaneBy.ACTION: action, LaneBy.WRITER: mark.writer, LaneBy.STREAM: mark.stream}[by]
    return str(value or NO_LANE[by])


def gantt(
    marks: Sequence[Mark], *, lane_by: LaneBy, since_ms: int, until_ms: int, now_ms: int
) -> Figure:
    """Horizontal bars from requested to completed (a pending one reaches to now), one trace per
    state.
    """
    thin_ms = max(1, int((until_ms - since_ms) * _THIN_BAR_SHARE))
    placed: list[tuple[Mark, float]] = []
    ticks: list[tuple[float, str]] = []
    separators: list[float] = []
    y = 0.0
    for lane, members in _lanes(marks, lane_by):
        sub_lanes = _pack(members, now_ms=now_ms, thin_ms=thin_ms)
        height = max(sub_lanes) + 1
        placed.extend((mark, y + sub) for mark, sub in zip(members, sub_lanes, strict=True))
        ticks.append((y + (height - 1) / 2, lane))
        y += height
        separators.append(y - 0.5 + _LANE_GAP / 2)
        y += _LANE_GAP
    traces = [
        _bars(state, of_state, now_ms=now_ms)
        for state in _STATE_ORDER + tuple(sorted(set(map(_shown_as, marks)) - set(_STATE_ORDER)))
        if (of_state := [(mark, at) for mark, at in placed if _shown_as(mark) == state])
    ]
    layout = _layout(since_ms=since_ms, until_ms=until_ms, now_ms=now_ms, ticks=ticks, rows=y)
    layout["shapes"] += [_separator(at) for at in separators[:-1]]
    layout["barmode"] = "overlay"
    layout["meta"] = {"mode": "bars"}
    return {"data": traces, "layout": layout}


def density(
    cells: Iterable[Cell],
    *,
    lane_by: LaneBy,
    since_ms: int,
    until_ms: int,
    now_ms: int,
    bin_ms: int,
) -> Figure:
    """A heatmap of how many instants began per lane and time bin: the view of a window with too
    many bars.
    """
    counts: dict[str, dict[int, Cell]] = defaultdict(dict)
    for cell in cells:
        counts[cell.lane][cell.start_ms] = cell
    lanes = sorted(counts, key=lambda lane: _lane_rank(lane, lane_by))
    first = since_ms - since_ms % bin_ms
    starts = list(range(first, until_ms, bin_ms))
    nothing = Cell(lane="", start_ms=0, count=0, pending=0)
    rows = [[counts[lane].get(start, nothing) for start in starts] for lane in lanes]
    trace: Figure = {
        "type": "heatmap",
        "name": "Instants",
        "x": [_utc(start + bin_ms // 2) for start in starts],
        "y": list(range(len(lanes))),
        "z": [[cell.count or None for cell in row] for row in rows],
        "customdata": [
            [[escape(lane), cell.pending] for cell in row]
            for lane, row in zip(lanes, rows, strict=True)
        ],
        "hovertemplate": (
            "%{customdata[0]}<br>%{x|%H:%M:%S}"
            "<br>%{z} instants, %{customdata[1]} pending<extra></extra>"
        ),
        "hoverongaps": False,
        "xgap": 0,  # On a narrow screen a gap is as wide as its cell, and nothing is left.
        "ygap": 6,
        "showscale": False,
    }
    layout = _layout(
        since_ms=since_ms,
        until_ms=until_ms,
        now_ms=now_ms,
        ticks=[(float(at), lane) for at, lane in enumerate(lanes)],
        rows=len(lanes) * 1.4,
    )
    layout["yaxis"]["range"] = [len(lanes) - 0.5, -0.5]
    layout["meta"] = {"mode": "heat"}
    return {"data": [trace], "layout": layout}


def bin_width_ms(since_ms: int, until_ms: int) -> int:
    """The width of a heatmap column: a round one, at most `BINS_MAX` of them in the window.

    Round, because instants are counted by whole seconds, minutes, hours or days.
    """
    wanted = (until_ms - since_ms) // BINS_MAX
    return next(
        (width for width in _BIN_WIDTHS_MS if width >= wanted),
        86_400_000 * (wanted // 86_400_000 + 1),
    )


def cells(marks: Iterable[Mark], *, lane_by: LaneBy, bin_ms: int) -> list[Cell]:
    """Count marks per lane and bin."""
    counted: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for mark in marks:
        tally = counted[lane_of(mark, lane_by), mark.requested_ms - mark.requested_ms % bin_ms]
        tally[0] += 1
        tally[1] += mark.completed_ms is None
    return [
        Cell(lane=lane, start_ms=start, count=count, pending=pending)
        for (lane, start), (count, pending) in counted.items()
    ]


def _lane_rank(lane: str, by: LaneBy) -> tuple[int, str]:
    if by is LaneBy.ACTION and lane in ACTIONS:
        return ACTIONS.index(lane), lane
    return len(ACTIONS) + (lane == NO_LANE[by]), lane


def _lanes(marks: Iterable[Mark], by: LaneBy) -> list[tuple[str, list[Mark]]]:
    def rank(mark: Mark) -> tuple[tuple[int, str], int]:
        return _lane_rank(lane_of(mark, by), by), mark.requested_ms

    ordered = sorted(marks, key=rank)
    return [
        (lane, list(members))
        for lane, members in groupby(ordered, key=lambda mark: lane_of(mark, by))
    ]


def _pack(marks: Sequence[Mark], *, now_ms: int, thin_ms: int) -> list[int]:
    """The first sub-lane that is free for each mark; the marks are ordered by their start."""
    free_from: list[int] = []
    chosen: list[int] = []
    for mark in marks:
        end = max(_end_ms(mark, now_ms), mark.requested_ms + thin_ms)
        sub = next((at for at, free in enumerate(free_from) if free <= mark.requested_ms), None)
        if sub is None and len(free_from) < SUB_LANES_MAX:
            free_from.append(end)
            sub = len(free_from) - 1
        elif sub is None:
            sub = SUB_LANES_MAX - 1
        free_from[sub] = max(end, free_from[sub])
        chosen.append(sub)
    return chosen


def _end_ms(mark: Mark, now_ms: int) -> int:
    return mark.completed_ms if mark.completed_ms is not None else max(now_ms, mark.requested_ms)


def _shown_as(mark: Mark) -> str:
    """What is in the history is completed, and told apart from what readers still list."""
    return "archived" if mark.is_archived else mark.state


def _bars(state: str, placed: Sequence[tuple[Mark, float]], *, now_ms: int) -> Figure:
    word = state.replace("_", " ")
    return {
        "type": "bar",
        "orientation": "h",
        "name": word,
        "meta": {"state": state},
        "base": [_utc(mark.requested_ms) for mark, _ in placed],
        "x": [_end_ms(mark, now_ms) - mark.requested_ms for mark, _ in placed],
        "y": [at for _, at in placed],
        "width": 0.7,
        "marker": {
            "pattern": {"shape": _HATCH.get(state, ""), "size": 6, "solidity": 0.35},
            "line": {"width": 1.5},
        },
        "customdata": [_hover_values(mark, now_ms) for mark, _ in placed],
        "hovertemplate": (
            "<b>%{customdata[1]}</b> " + escape(word) + "<br>%{customdata[0]}"
            "<br>%{customdata[2]}<br>%{customdata[3]}<extra></extra>"
        ),
    }


def _hover_values(mark: Mark, now_ms: int) -> list[str]:
    # Names come from tables, and Plotly reads a little HTML in its labels.
    who = (
        " · ".join(escape(name) for name in (mark.writer, mark.stream) if name)
        or "writer not named"
    )
    took_s = (_end_ms(mark, now_ms) - mark.requested_ms) / 1000
    took = f"{took_s:.1f} s" if mark.completed_ms is not None else f"pending for {took_s:.0f} s"
    rows = f", {mark.rows:,} rows" if mark.rows is not None else ""
    return [escape(mark.requested_at), escape(mark.action), who, took + rows]


def _layout(
    *, since_ms: int, until_ms: int, now_ms: int, ticks: Sequence[tuple[float, str]], rows: float
) -> Figure:
    return {
        "height": int(max(3.0, rows) * _ROW_PX + 60),
        "margin": {"l": 8, "r": 12, "t": 6, "b": 44},
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": "zoom",
        "xaxis": {
            "type": "date",
            "range": [_utc(since_ms), _utc(until_ms)],
            "hoverformat": "%H:%M:%S.%L",
            "tickformatstops": [
                {"dtickrange": [None, 60_000], "value": "%H:%M:%S\n%-d %b"},
                {"dtickrange": [60_000, 86_400_000], "value": "%H:%M\n%-d %b"},
                {"dtickrange": [86_400_000, None], "value": "%-d %b\n%Y"},
            ],
            "zeroline": False,
            "ticks": "outside",
            "ticklen": 4,
        },
        "yaxis": {
            "tickmode": "array",
            "tickvals": [at for at, _ in ticks],
            "ticktext": [escape(_shortened(text)) for _, text in ticks],
            "range": [max(rows, 1.0) - 0.5, -0.75],
            "automargin": True,
            "fixedrange": True,
            "zeroline": False,
            "showgrid": False,
            "ticks": "",
        },
        "shapes": [
            {
                "name": "now",
                "type": "line",
                "x0": _utc(now_ms),
                "x1": _utc(now_ms),
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"width": 1, "dash": "dot"},
            }
        ],
    }


def _utc(milliseconds: int) -> str:
    # Text, not a number: Plotly shows numbers in the reader's own time zone.
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03d}"


def moment_text(instant: str) -> str:
    """An instant as Plotly reads a date."""
    at = instant.ljust(17, "0")
    return f"{at[:4]}-{at[4:6]}-{at[6:8]} {at[8:10]}:{at[10:12]}:{at[12:14]}.{at[14:17]}"


def _separator(at: float) -> Figure:
    return {
        "name": "lane",
        "type": "line",
        "layer": "below",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": at,
        "y1": at,
        "line": {"width": 1},
    }


def _shortened(text: str, *, length_max: int = 24) -> str:
    return text if len(text) <= length_max else text[: length_max - 1] + "…"
