"""Timeline rows to Plotly figures, built as plain dicts: pure, no colours (the page takes those
from its theme), no I/O.

Only SVG traces (`bar`, `scatter`, `heatmap`): WebGL ones need `eval`, which the content policy
refuses. Up to `MARKS_MAX` instants are marks; more become a heatmap of lane by time, so the size of
an answer never depends on the age of a table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from itertools import groupby

from controlplane.mirror.density import lane_name
from controlplane.mirror.timeline_rows import ACTIONS
from web.chart_marks import (
    ENDS,
    FLAG,
    Figure,
    Mark,
    bars,
    began_ms,
    end_ms,
    points,
    shown_as,
    ties,
    utc,
)

MARKS_MAX = 1_500
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
        3600,
        7200,
        10800,
        21600,
        86400,
    )
)
_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
_ROW_PX = 22
_LANE_GAP = 0.5
_THIN_BAR_SHARE = 1 / 900
"""The part of the window that the narrowest bar takes when sub-lanes are packed: about one pixel.
"""


class LaneBy(StrEnum):
    ACTION = "action"
    WRITER = "writer"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Cell:
    """How many instants of one lane began in one time bin."""

    lane: str
    start_ms: int
    count: int
    pending: int


_STATE_ORDER = (
    "archived", "completed", "inflight", "requested", "rolled_back", "conflicted", "failed",
)  # fmt: skip
NO_LANE = {LaneBy.WRITER: "unnamed writer", LaneBy.STREAM: "no stream", LaneBy.ACTION: "?"}


def lane_of(mark: Mark, by: LaneBy) -> str:
    action = lane_name(mark.action, mark.operation_type)
    value = {LaneBy.ACTION: action, LaneBy.WRITER: mark.writer, LaneBy.STREAM: mark.stream}[by]
    return str(value or NO_LANE[by])


def gantt(
    marks: Sequence[Mark], *, lane_by: LaneBy, since_ms: int, until_ms: int, now_ms: int
) -> Figure:
    """Horizontal bars from requested to completed (a pending one reaches to now, one that was taken
    back to its end, which is marked), one trace per state. What has another's instant time is a
    flag at the time when it was made, tied to the end of the bar that it is about.
    """
    thin_ms = max(1, int((until_ms - since_ms) * _THIN_BAR_SHARE))
    placed: list[tuple[Mark, float]] = []
    ticks: list[tuple[float, str]] = []
    separators: list[float] = []
    y = 0.0
    for lane, members in _lanes(marks, lane_by, now_ms):
        sub_lanes = _pack(members, now_ms=now_ms, thin_ms=thin_ms)
        height = max(sub_lanes) + 1
        placed.extend((mark, y + sub) for mark, sub in zip(members, sub_lanes, strict=True))
        ticks.append((y + (height - 1) / 2, lane))
        y += height
        separators.append(y - 0.5 + _LANE_GAP / 2)
        y += _LANE_GAP
    spans = [(mark, at) for mark, at in placed if not mark.is_point]
    flags = [(mark, at) for mark, at in placed if mark.is_point]
    by_state = {
        state: [(mark, at) for mark, at in spans if shown_as(mark) == state]
        for state in (*_STATE_ORDER, *sorted(set(map(shown_as, marks)) - set(_STATE_ORDER)))
    }
    traces = [bars(state, of, now_ms=now_ms) for state, of in by_state.items() if of]
    traces += [
        points(state, of, symbol=symbol, now_ms=now_ms)
        for state, symbol in ENDS.items()
        if (of := by_state[state])
    ]
    traces += [points("savepoint", flags, symbol=FLAG, now_ms=now_ms)] if flags else []
    layout = _layout(since_ms=since_ms, until_ms=until_ms, now_ms=now_ms, ticks=ticks, rows=y)
    layout["shapes"] += [_separator(at) for at in separators[:-1]]
    layout["shapes"] += ties(flags, spans, now_ms=now_ms)
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
        "x": [utc(start + bin_ms // 2) for start in starts],
        "y": list(range(len(lanes))),
        "z": [[cell.count or None for cell in row] for row in rows],
        # Not the lane again, which would be most of the answer.
        "customdata": [[cell.pending for cell in row] for row in rows],
        "hovertemplate": (
            f"%{{y}}<br>%{{x|{_moment_of(bin_ms)}}}"
            "<br>%{z} instants, %{customdata} pending<extra></extra>"
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
    layout["meta"] = {"mode": "heat", "bin_ms": bin_ms}
    return {"data": [trace], "layout": layout}


def _moment_of(bin_ms: int) -> str:
    """How a bin's middle is written: no more exactly than the bin is."""
    if bin_ms >= _DAY_MS:
        return "%-d %b %Y"
    return "%-d %b, %H:%M" if bin_ms >= _MINUTE_MS else "%H:%M:%S"


def bin_width_ms(since_ms: int, until_ms: int) -> int:
    """The width of a heatmap column: a round one, at most `BINS_MAX` of them in the window.

    Round, because instants are counted by whole seconds, minutes, hours or days, and
    those of a long history by hours beforehand.
    """
    wanted = (until_ms - since_ms) // BINS_MAX
    return next(
        (width for width in _BIN_WIDTHS_MS if width >= wanted),
        _DAY_MS * (wanted // _DAY_MS + 1),
    )


def cells(marks: Iterable[Mark], *, lane_by: LaneBy, bin_ms: int) -> list[Cell]:
    """Count marks per lane and bin."""
    counted: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for mark in marks:
        began = began_ms(mark, 0)
        tally = counted[lane_of(mark, lane_by), began - began % bin_ms]
        tally[0] += 1
        tally[1] += mark.ended_ms is None
    return [
        Cell(lane=lane, start_ms=start, count=count, pending=pending)
        for (lane, start), (count, pending) in counted.items()
    ]


def _lane_rank(lane: str, by: LaneBy) -> tuple[int, str]:
    if by is LaneBy.ACTION and lane in ACTIONS:
        return ACTIONS.index(lane), lane
    return len(ACTIONS) + (lane == NO_LANE[by]), lane


def _lanes(marks: Iterable[Mark], by: LaneBy, now_ms: int) -> list[tuple[str, list[Mark]]]:
    def rank(mark: Mark) -> tuple[tuple[int, str], int]:
        return _lane_rank(lane_of(mark, by), by), began_ms(mark, now_ms)

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
        began = began_ms(mark, now_ms)
        end = max(end_ms(mark, now_ms), began + thin_ms)
        sub = next((at for at, free in enumerate(free_from) if free <= began), None)
        if sub is None and len(free_from) < SUB_LANES_MAX:
            free_from.append(end)
            sub = len(free_from) - 1
        elif sub is None:
            sub = SUB_LANES_MAX - 1
        free_from[sub] = max(end, free_from[sub])
        chosen.append(sub)
    return chosen


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
            "range": [utc(since_ms), utc(until_ms)],
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
                "x0": utc(now_ms),
                "x1": utc(now_ms),
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"width": 1, "dash": "dot"},
            }
        ],
    }


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
