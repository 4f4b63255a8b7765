"""Figures of the Sinks page, as plain dicts: pure, no colours, no I/O. SVG traces only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Protocol

from web.chart_marks import Figure

LANES_MAX = 24
MESSAGES_MAX = 240
TRANSACTIONS_DRAWN = 2
COORDINATOR = "coordinator"
_ROW_PX = 24
# Each message keeps its colour, its symbol and its side: from the coordinator down, or up to it.
MESSAGES: dict[str, tuple[str, str, bool]] = {
    "START_COMMIT": ("busy", "triangle-down", True),
    "END_COMMIT": ("warn", "square", True),
    "WRITE_STATUS": ("undone", "triangle-up", False),
    "ACK_COMMIT": ("good", "circle", True),
}
OUTCOMES = {"committed": ("good", ""), "aborted": ("warn", "/")}
_OTHER = ("bad", "x")


class Message(Protocol):
    @property
    def at_ms(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def sender(self) -> str: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def instant(self) -> str: ...
    @property
    def detail(self) -> str: ...


class Transaction(Protocol):
    @property
    def instant(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def started_ms(self) -> int: ...
    @property
    def took_ms(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def reason(self) -> str: ...


def sequence(
    trace: Sequence[Message],
    partitions: Collection[int],
    *,
    missing: Collection[int],
    waits_for: str,
    now_ms: int,
) -> Figure | None:
    """Who sent what to whom in the newest transactions: a lane for the coordinator, one for each
    participant, those that are missing first.

    `waits_for` names the message that the missing ones owe.
    """
    drawn = newest(trace)
    speaking = {one.partition for one in drawn if one.partition is not None}
    lanes = sorted(
        {*partitions, *speaking, *missing},
        key=lambda partition: (partition not in missing, partition),
    )
    if not drawn or not lanes:
        return None
    shown = lanes[:LANES_MAX]
    place = {partition: number for number, partition in enumerate(shown, start=1)}
    data = [
        trace_
        for kind in MESSAGES
        if (trace_ := _messages(kind, [one for one in drawn if one.kind == kind], place))
    ]
    if missing:
        data.append(_missing([place[one] for one in missing if one in place], waits_for, now_ms))
    names = [COORDINATOR, *(_lane(one, missing) for one in shown)]
    return {"data": data, "layout": _sequence_layout(names)}


def nothing() -> Figure:
    """What is drawn before there is anything to draw."""
    layout = _layout(90)
    for axis in ("xaxis", "yaxis"):
        layout[axis]["visible"] = False
    return {"data": [], "layout": layout}


def newest(trace: Sequence[Message]) -> list[Message]:
    """Messages of the newest transactions, oldest first."""
    messages = [one for one in trace if one.kind in MESSAGES]
    instants: list[str] = []
    for message in reversed(messages):
        if message.instant not in instants:
            instants.append(message.instant)
    kept = set(instants[:TRANSACTIONS_DRAWN])
    return [one for one in messages if one.instant in kept][-MESSAGES_MAX:]


def outcomes(transactions: Sequence[Transaction], *, address: str) -> Figure | None:
    """How long each of the last transactions took, and how it ended. `address` leads to the
    timeline at an instant.
    """
    if not transactions:
        return None
    ordered = sorted(transactions, key=lambda transaction: transaction.started_ms)
    instants = [one.instant for one in ordered]
    data = [
        _bars(outcome, [one for one in ordered if one.outcome == outcome], address)
        for outcome in sorted({one.outcome for one in ordered}, key=_rank)
    ]
    step = max(1, len(ordered) // 6)
    layout = _layout(240)
    layout |= {"barmode": "stack", "bargap": 0.2, "showlegend": True}
    layout["legend"] = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    layout["xaxis"] |= {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": instants,
        "tickmode": "array",
        "tickvals": instants[::step],
        "ticktext": [_clock(one.started_ms) for one in ordered[::step]],
    }
    layout["yaxis"] |= {"title": {"text": "seconds", "standoff": 4}, "rangemode": "tozero"}
    return {"data": data, "layout": layout}


def _messages(kind: str, messages: Sequence[Message], place: dict[int, int]) -> Figure | None:
    """Lines between the lanes; a gap ends each message."""
    tone, symbol, is_down = MESSAGES[kind]
    x: list[str | None] = []
    y: list[int | None] = []
    words: list[str] = []
    for message in messages:
        if not is_down and message.partition not in place:
            continue
        lanes = [0, *place.values()] if is_down else [place[message.partition or 0], 0]
        x += [*([_utc(message.at_ms)] * len(lanes)), None]
        y += [*lanes, None]
        words += [_words(message)] * (len(lanes) + 1)
    if not x:
        return None
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": kind,
        "x": x,
        "y": y,
        "text": words,
        "line": {"width": 1.5},
        "marker": {"size": 8, "symbol": symbol},
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"tone": tone},
    }


def _missing(places: Sequence[int], waits_for: str, now_ms: int) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"no {escape(waits_for)} yet",
        "x": [_utc(now_ms)] * len(places),
        "y": list(places),
        "cliponaxis": False,
        "marker": {"size": 11, "symbol": "x"},
        "hovertemplate": f"no {escape(waits_for)} yet<extra></extra>",
        "meta": {"tone": "bad"},
    }


def _words(message: Message) -> str:
    detail = f"<br>{escape(message.detail[:120])}" if message.detail else ""
    who = f"partition {message.partition}" if message.partition is not None else COORDINATOR
    when = f"{_clock(message.at_ms)}, {escape(message.instant)}"
    return f"<b>{message.kind}</b> of {who}<br>{when}{detail}"


def _lane(partition: int, missing: Collection[int]) -> str:
    return f"<b>p{partition} missing</b>" if partition in missing else f"p{partition}"


def _bars(outcome: str, members: Sequence[Transaction], address: str) -> Figure:
    tone, pattern = OUTCOMES.get(outcome, _OTHER)
    return {
        "type": "bar",
        "name": escape(outcome.replace("_", " ")),
        "x": [one.instant for one in members],
        "y": [round(one.took_ms / 1000, 3) for one in members],
        "text": [
            f"{one.rows:,} rows" + (f"<br>{escape(one.reason[:160])}" if one.reason else "")
            for one in members
        ],
        "textposition": "none",
        "hovertemplate": "%{x}<br>%{y} s<br>%{text}<extra>" + escape(outcome) + "</extra>",
        "marker": {"pattern": {"shape": pattern, "solidity": 0.35}},
        "meta": {
            "tone": tone,
            "links": [f"{address}?sel={one.instant}" for one in members],
        },
    }


def _rank(outcome: str) -> tuple[int, str]:
    known = list(OUTCOMES)
    return known.index(outcome) if outcome in known else len(known), outcome


def _sequence_layout(names: Sequence[str]) -> dict[str, Any]:
    layout = _layout(len(names) * _ROW_PX + 110)
    layout["showlegend"] = True
    layout["legend"] = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    layout["xaxis"] |= {"type": "date"}
    layout["yaxis"] |= {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "range": [len(names) - 0.4, -0.6],
    }
    return layout


def _layout(height: int) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 36},
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "xaxis": {"fixedrange": True, "zeroline": False, "automargin": True},
        "yaxis": {"fixedrange": True, "zeroline": False, "automargin": True},
    }


def _utc(milliseconds: int) -> str:
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03d}"


def _clock(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%H:%M:%S")
