"""Two writers as two bars on one time axis, with the time that they shared. Pure geometry, which
the page renders as SVG.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.writers.conflicts import ConflictDetail
from web.conflicts.words import clock, name_of
from web.templatetags.lake import took

WIDTH = 1000.0
_BAR_LEAST = 6.0
"""Keeps a write of a millisecond visible next to one of an hour."""


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Moment:
    at_ms: int
    side: str
    """a, b, or both"""
    words: str
    after: str
    """Since the first moment."""


@dataclass(frozen=True, slots=True)
class Lanes:
    winner: Bar | None
    loser: Bar
    shared: Bar | None
    early_x: float | None
    first: str
    last: str
    shared_words: str
    label: str
    moments: tuple[Moment, ...]


def lanes(detail: ConflictDetail, *, early_ms: int | None) -> Lanes:
    row, winner = detail.row, detail.winner
    verdict_ms = row.verdict_ms
    ended_ms = winner.ended_ms if winner.ended_ms is not None else max(verdict_ms, row.began_ms)
    starts = [row.began_ms] + ([winner.began_ms] if winner.began_ms is not None else [])
    first_ms, last_ms = min(starts), max(verdict_ms, ended_ms)
    scale = WIDTH / max(1, last_ms - first_ms)

    def bar(since_ms: int, until_ms: int) -> Bar:
        width = max(_BAR_LEAST, (until_ms - since_ms) * scale)
        return Bar(round(min((since_ms - first_ms) * scale, WIDTH - width), 1), round(width, 1))

    shared = None
    if winner.began_ms is not None:
        since_ms, until_ms = max(winner.began_ms, row.began_ms), min(ended_ms, verdict_ms)
        shared = (since_ms, until_ms) if until_ms > since_ms else None
    words = f"both wrote for {took(shared[1] - shared[0])}" if shared else ""
    moments = _moments(detail, first_ms)
    return Lanes(
        winner=bar(winner.began_ms, ended_ms) if winner.began_ms is not None else None,
        loser=bar(row.began_ms, verdict_ms),
        shared=bar(*shared) if shared else None,
        early_x=round((early_ms - first_ms) * scale, 1) if early_ms is not None else None,
        first=clock(first_ms),
        last=clock(last_ms),
        shared_words=words,
        label=f"Timeline of both writers; {words or 'they did not overlap in time'}. "
        "The list below contains the same events.",
        moments=moments,
    )


def _moments(detail: ConflictDetail, first_ms: int) -> tuple[Moment, ...]:
    row, winner, loser = detail.row, detail.winner, detail.loser
    moments: list[tuple[int, str, str]] = [
        (row.began_ms, "b", f"{name_of(loser)} began from the table as of then")
    ]
    if winner.began_ms is not None:
        moments.append((winner.began_ms, "a", f"{name_of(winner)} began"))
    if winner.ended_ms is not None:
        moments.append((winner.ended_ms, "a", f"{name_of(winner)} completed; its rows are visible"))
    verdict = (
        "was stopped while it wrote" if row.detected == "early" else "was rejected by validation"
    )
    moments.append((row.verdict_ms, "b", f"{name_of(loser)} {verdict}"))
    decided_ms = int(row.decided_at.timestamp() * 1000)
    if row.lasted_ms is not None and decided_ms >= row.verdict_ms:
        moments.append((decided_ms, "b", "its rollback was decided"))
    return tuple(
        Moment(at_ms, side, words, f"+ {took(at_ms - first_ms)}" if at_ms > first_ms else "")
        for at_ms, side, words in sorted(moments, key=lambda moment: moment[0])
    )
