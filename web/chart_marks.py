"""One instant as a mark of the timeline chart: a bar, the sign at the end of what was taken back,
or a flag. Pure, as plain dicts; no colours, which the page takes from its theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from html import escape
from typing import Any, Protocol

Figure = dict[str, Any]
_HATCH = {
    "inflight": "/", "requested": ".", "failed": "x", "rolled_back": "\\", "conflicted": "x",
}  # fmt: skip
ENDS = {"rolled_back": "triangle-left", "conflicted": "x"}
"""At the end of what was taken back: a bar may be too thin for its hatching."""
FLAG = "triangle-right"
_WRITERS_KEPT = 1_024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Mark(Protocol):
    """What a bar needs to know of an instant; the `InstantRow` of `mirror.timeline_rows` has it."""

    @property
    def requested_at(self) -> str: ...
    @property
    def began_ms(self) -> int | None: ...
    @property
    def ended_ms(self) -> int | None: ...
    @property
    def is_point(self) -> bool: ...
    @property
    def is_undone(self) -> bool: ...
    @property
    def undone_by(self) -> str | None: ...
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


def began_ms(mark: Mark, now_ms: int) -> int:
    began = mark.began_ms
    return now_ms if began is None else began


def end_ms(mark: Mark, now_ms: int) -> int:
    ended = mark.ended_ms
    return max(now_ms, began_ms(mark, now_ms)) if ended is None else ended


def shown_as(mark: Mark) -> str:
    """What is in the history is completed, and told apart from what readers still list."""
    return "archived" if mark.is_archived else mark.state


def bars(state: str, placed: Sequence[tuple[Mark, float]], *, now_ms: int) -> Figure:
    word = state.replace("_", " ")
    return {
        "type": "bar",
        "orientation": "h",
        "name": word,
        "meta": {"state": state},
        "base": [utc(began_ms(mark, now_ms)) for mark, _ in placed],
        "x": [end_ms(mark, now_ms) - began_ms(mark, now_ms) for mark, _ in placed],
        "y": [at for _, at in placed],
        "width": 0.7,
        "marker": {
            "pattern": {"shape": _HATCH.get(state, ""), "size": 6, "solidity": 0.35},
            "line": {"width": 1.5},
        },
        "customdata": [_hover_values(mark, now_ms) for mark, _ in placed],
        "hovertemplate": _hover(word),
    }


def points(state: str, placed: Sequence[tuple[Mark, float]], *, symbol: str, now_ms: int) -> Figure:
    word = "" if state == "savepoint" else state.replace("_", " ")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": state.replace("_", " "),
        "meta": {"state": state},
        "x": [utc(end_ms(mark, now_ms)) for mark, _ in placed],
        "y": [at for _, at in placed],
        "cliponaxis": False,
        "marker": {"symbol": symbol, "size": 11, "line": {"width": 1.5}},
        "customdata": [_hover_values(mark, now_ms) for mark, _ in placed],
        "hovertemplate": _hover(word),
    }


def ties(
    flags: Sequence[tuple[Mark, float]], bars: Sequence[tuple[Mark, float]], *, now_ms: int
) -> list[Figure]:
    """A line from each flag to the bar whose instant time it has, where that is shown."""
    ends = {mark.requested_at: (end_ms(mark, now_ms), at) for mark, at in bars}
    ends_of_flags = [(mark, at, ends.get(mark.requested_at)) for mark, at in flags]
    return [
        {
            "name": "tie",
            "type": "line",
            "layer": "below",
            "x0": utc(end[0]),
            "y0": end[1],
            "x1": utc(end_ms(mark, now_ms)),
            "y1": at,
            "line": {"width": 1, "dash": "dot"},
        }
        for mark, at, end in ends_of_flags
        if end
    ]


def _hover(word: str) -> str:
    return (
        "<b>%{customdata[1]}</b> " + escape(word) + "<br>%{customdata[0]}"
        "<br>%{customdata[2]}<br>%{customdata[3]}<extra></extra>"
    )


def _hover_values(mark: Mark, now_ms: int) -> list[str]:
    # Names come from tables, and Plotly reads a little HTML in its labels.
    who = _format_writer(mark.writer, mark.stream)
    rows = f", {mark.rows:,} rows" if mark.rows is not None else ""
    return [escape(mark.requested_at), escape(mark.action), who, _took(mark, now_ms) + rows]


@lru_cache(_WRITERS_KEPT)
def _format_writer(writer: str | None, stream: str | None) -> str:
    """Return the writer's name, with that of its stream. Many instants have the same."""
    return " · ".join(escape(name) for name in (writer, stream) if name) or "unnamed writer"


def _took(mark: Mark, now_ms: int) -> str:
    if mark.is_point:
        return "protects this instant" if mark.ended_ms is not None else "being created"
    took_s = (end_ms(mark, now_ms) - began_ms(mark, now_ms)) / 1000
    if mark.ended_ms is None:
        return f"pending for {took_s:.0f} s"
    if not mark.is_undone:
        return f"{took_s:.1f} s"
    by = f" by {escape(mark.undone_by)}" if mark.undone_by else ""
    return f"rolled back after {took_s:.1f} s{by}"


def utc(milliseconds: int) -> str:
    # Text, not a number: Plotly shows numbers in the reader's own time zone.
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(" ", "milliseconds").removesuffix("+00:00")
