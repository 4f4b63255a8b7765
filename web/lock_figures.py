"""Waits for the table lock and holds of it: as bars on one row per writer, and counted by how long
they took. Pure; positions are in the drawing's own units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.writers.locks import LockHold, LockStatus, LockWait
from web.templatetags.lake import took

WAITS_DRAWN = 60
ROWS_MAX = 8
_EDGES_MS = (1, 10, 100, 1_000, 10_000, 60_000)
_NAMES = (
    "under 1 ms",
    "1 to 10 ms",
    "10 to 100 ms",
    "100 ms to 1 s",
    "1 to 10 s",
    "10 s to 1 min",
    "over 1 min",
)
WIDTH = 1000.0
ROW_HEIGHT = 28
_LEAST = 4.0
_AROUND_LEAST_MS = 250
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Bin:
    name: str
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class Strip:
    """One wait or hold on the time axis."""

    x: float
    width: float
    y: int
    tone: str
    words: str
    instant: str
    """Of the decision; empty for a hold that a look at storage found."""


@dataclass(frozen=True, slots=True)
class Gantt:
    strips: tuple[Strip, ...]
    rows: tuple[str, ...]
    height: int
    first_ms: int
    last_ms: int
    ticks: tuple[tuple[float, int], ...]
    """(x, epoch ms), from edge to edge."""
    decisions: int
    """Of how many waits are drawn."""
    rows_left_out: int


@dataclass(frozen=True, slots=True)
class _Span:
    writer: str
    since_ms: int
    until_ms: int
    verb: str
    instant: str = ""

    @property
    def is_wait(self) -> bool:
        return self.verb == "waited"


def wait_bins(waits: Sequence[LockWait]) -> list[Bin]:
    """By powers of ten; what is beyond the last edge is one bin more."""
    counts = [0] * (len(_EDGES_MS) + 1)
    for wait in waits:
        counts[sum(wait.waited_ms >= edge for edge in _EDGES_MS)] += 1
    most = max(counts)
    return [
        Bin(name, count, count / most if most else 0.0)
        for name, count in zip(_NAMES, counts, strict=True)
    ]


def gantt(
    waits: Sequence[LockWait], status: LockStatus | None, *, around: str = ""
) -> Gantt | None:
    """How long each writer waited before each of the newest decisions, and how long it held the
    lock for it; the stretch near the decision `around` where that is one of `waits`. None where
    there is no wait.
    """
    window = _window(waits, around)
    drawn = [one for one in waits if _touches(one, window)][:WAITS_DRAWN]
    spans = [span for wait in drawn for span in _spans(wait)]
    if not spans:
        return None
    first_ms = min(span.since_ms for span in spans)
    spans += [
        span
        for span in _seen(status.holders if status else [])
        if span.until_ms >= first_ms and (window is None or span.since_ms <= window[1])
    ]
    if window is None:
        window = min(one.since_ms for one in spans), max(one.until_ms for one in spans)
    writers = list(dict.fromkeys(span.writer for span in spans))
    rows = tuple(writers[:ROWS_MAX])
    strips = tuple(_strip(one, rows, window) for one in spans if one.writer in rows)
    return Gantt(
        strips=strips,
        rows=rows,
        height=len(rows) * ROW_HEIGHT,
        first_ms=window[0],
        last_ms=window[1],
        ticks=tuple(_ticks(window)),
        decisions=len(drawn),
        rows_left_out=len(writers) - len(rows),
    )


def _window(waits: Sequence[LockWait], around: str) -> tuple[int, int] | None:
    """The decision with as much again on both sides."""
    chosen = next((one for one in waits if one.instant == around), None)
    if chosen is None:
        return None
    since_ms = chosen.had_it_ms - chosen.waited_ms
    until_ms = chosen.had_it_ms + (chosen.held_ms or 0)
    beside_ms = max(_AROUND_LEAST_MS, until_ms - since_ms)
    return since_ms - beside_ms, until_ms + beside_ms


def _touches(wait: LockWait, window: tuple[int, int] | None) -> bool:
    if window is None:
        return True
    until_ms = wait.had_it_ms + (wait.held_ms or 0)
    return wait.had_it_ms - wait.waited_ms <= window[1] and until_ms >= window[0]


def _spans(wait: LockWait) -> Iterable[_Span]:
    begun_ms = wait.had_it_ms - wait.waited_ms
    yield _Span(wait.writer, begun_ms, wait.had_it_ms, "waited", wait.instant)
    if wait.held_ms is not None:
        until_ms = wait.had_it_ms + wait.held_ms
        yield _Span(
            wait.writer, wait.had_it_ms, until_ms, "held the lock for at least", wait.instant
        )


def _seen(holders: Iterable[LockHold]) -> Iterable[_Span]:
    for hold in holders:
        if hold.since_ms is not None:
            yield _Span(hold.writer, hold.since_ms, hold.seen_ms, "held the lock in samples for")


def _strip(span: _Span, rows: tuple[str, ...], window: tuple[int, int]) -> Strip:
    scale = WIDTH / max(1, window[1] - window[0])
    left = max(0.0, (span.since_ms - window[0]) * scale)
    right = min(WIDTH, (span.until_ms - window[0]) * scale)
    width = max(_LEAST, right - left)
    words = f"{span.writer or 'unnamed'} {span.verb} {took(span.until_ms - span.since_ms)}"
    return Strip(
        x=round(min(left, WIDTH - width), 1),
        width=round(width, 1),
        y=rows.index(span.writer) * ROW_HEIGHT + (4 if span.is_wait else 15),
        tone="warn" if span.is_wait else "busy",
        words=words,
        instant=span.instant,
    )


def _ticks(window: tuple[int, int]) -> Iterable[tuple[float, int]]:
    first_ms, last_ms = window
    for at in range(_TICKS + 1):
        yield WIDTH * at / _TICKS, first_ms + (last_ms - first_ms) * at // _TICKS
