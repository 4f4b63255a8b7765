"""Small bars as the path of an SVG that a template draws: numbers to a text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

STEP: Final = 8
"""Width of a bar and the gap behind it, in the drawing's own units."""
BAR: Final = 6
LEAST: Final = 1.5
"""What is there is seen, however small beside the greatest."""


@dataclass(frozen=True, slots=True)
class Bars:
    width: int
    height: int
    path: str
    """Empty where every number is zero."""
    peak: int
    total: int


def bars(counts: Sequence[int], *, height: int, peak: int = 0) -> Bars:
    """Standing on the lower edge; `peak` is what reaches the upper one, the greatest where it is
    0.
    """
    greatest = peak or max(counts, default=0)
    return Bars(
        width=STEP * len(counts),
        height=height,
        path="".join(_bar(at, count, greatest, height) for at, count in enumerate(counts) if count),
        peak=max(counts, default=0),
        total=sum(counts),
    )


def _bar(at: int, count: int, greatest: int, height: int) -> str:
    tall = max(LEAST, min(1.0, count / greatest) * height)
    return f"M{at * STEP} {height}v-{tall:.3g}h{BAR}v{tall:.3g}z"
