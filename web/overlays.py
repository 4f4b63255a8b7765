"""What lies over a timeline when it is switched on: the range that cleaning retains, savepoints,
the border of the archive. As shapes of the chart, and as lines of its twin. The address says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from controlplane.mirror.queries.overlays import archive_border, kept_moments, retained_range
from web.chart_marks import Figure, utc

if TYPE_CHECKING:
    from controlplane.tables.models import Table

NAMES = {
    "retained": "retained range",
    "savepoints": "savepoints",
    "archive": "archive border",
}
"""By their key in the address."""
COMMENT_CHARS_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayLine:
    """One thing that an overlay shows, as the twin says it."""

    overlay: str
    words: str
    since_ms: int | None
    """None where there is nothing to draw: the words say why."""
    is_range: bool = False
    """A stretch that goes on, where others are moments."""
    instant: str = ""
    """Where it leads."""
    label: str = ""


def chosen(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Those that the address switches on."""
    return tuple(name for name in NAMES if texts.get(name))


def overlay_lines(table: Table, names: tuple[str, ...]) -> list[OverlayLine]:
    """What the chosen overlays show of this table, wherever on the timeline it lies."""
    return [line for name in names for line in _LINES[name](table)]


def shapes(lines: list[OverlayLine], *, since_ms: int, until_ms: int) -> list[Figure]:
    """Shapes of what lies in the window. Colours come from the page, by the shape's name."""
    drawn = []
    for line in lines:
        if line.since_ms is None or line.since_ms > until_ms:
            continue
        if line.is_range:
            drawn.append(_stretch(line, max(line.since_ms, since_ms), until_ms))
        elif line.since_ms >= since_ms:
            drawn.append(_moment(line, line.since_ms))
    return drawn


def _stretch(line: OverlayLine, since_ms: int, until_ms: int) -> Figure:
    return {
        **_shape(line, since_ms, until_ms),
        "type": "rect",
        "label": {"text": escape(line.label), "textposition": "bottom left", "font": {"size": 11}},
        "line": {"width": 0},
    }


def _moment(line: OverlayLine, at_ms: int) -> Figure:
    return {
        **_shape(line, at_ms, at_ms),
        "type": "line",
        "label": {
            "text": escape(line.label),
            "textposition": "end",
            "textangle": 0,
            "xanchor": "left",
            "yanchor": "top",
            "font": {"size": 11},
        },
        "line": {"width": 1.5, "dash": "dashdot" if line.overlay == "archive" else "dash"},
    }


def _shape(line: OverlayLine, since_ms: int, until_ms: int) -> Figure:
    return {
        "name": f"overlay-{line.overlay}",
        "layer": "below",
        "yref": "paper",
        "x0": utc(since_ms),
        "x1": utc(until_ms),
        "y0": 0,
        "y1": 1,
    }


def _retained(table: Table) -> list[OverlayLine]:
    kept = retained_range(table)
    if kept is None:
        words = "The active timeline has no clean, so older files were not deleted."
        return [OverlayLine(overlay="retained", words=words, since_ms=None)]
    if kept.since_ms is None:
        words = "The newest clean retained file versions, not commits, so none is the earliest."
        return [OverlayLine(overlay="retained", words=words, since_ms=None, instant=kept.clean)]
    return [
        OverlayLine(
            overlay="retained",
            words="The newest clean retained every state since this commit.",
            since_ms=kept.since_ms,
            is_range=True,
            instant=kept.clean,
            label="retained by cleaning",
        )
    ]


def _savepoints(table: Table) -> list[OverlayLine]:
    moments = kept_moments(table)
    if not moments:
        return [OverlayLine(overlay="savepoints", words="No savepoints.", since_ms=None)]
    return [
        OverlayLine(
            overlay="savepoints",
            words=_by(moment.by, moment.comment),
            since_ms=moment.commit_ms,
            instant=moment.commit,
        )
        for moment in moments
    ]


def _by(who: str, comment: str) -> str:
    text = f"The state after this commit is kept{f' by {who}' if who else ''}"
    return f"{text}: {comment[:COMMENT_CHARS_MAX]}" if comment else f"{text}."


def _archive(table: Table) -> list[OverlayLine]:
    border = archive_border(table)
    if border is None:
        words = "No archived instants: all are on the active timeline."
        return [OverlayLine(overlay="archive", words=words, since_ms=None)]
    return [
        OverlayLine(
            overlay="archive",
            words="The newest archived instant. Older ones are archived too, unless something"
            " keeps them on the active timeline.",
            since_ms=border.completed_ms,
            instant=border.newest,
            label="archived up to here",
        )
    ]


_LINES: dict[str, Callable[[Table], list[OverlayLine]]] = {
    "retained": _retained,
    "savepoints": _savepoints,
    "archive": _archive,
}
