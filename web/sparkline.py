"""A line as wide as a word: numbers to the points of an SVG that a template draws. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sparkline:
    width: int
    height: int
    peak: int
    points: str = ""
    """Empty when there is too little to draw."""
    gaps: tuple[str, ...] = ()
    """Where nobody answered."""


def sparkline(values: Sequence[int | None], *, width: int, height: int) -> Sparkline:
    """None is a moment without an answer; it leaves a mark instead of a point."""
    known = [value for value in values if value is not None]
    peak = max(known, default=0)
    if len(values) < 2 or not known:
        return Sparkline(width=width, height=height, peak=peak)
    step = width / (len(values) - 1)
    scale = (height - 4) / max(1, peak)
    return Sparkline(
        width=width,
        height=height,
        peak=peak,
        points=" ".join(
            f"{at * step:.1f},{height - 2 - value * scale:.1f}"
            for at, value in enumerate(values)
            if value is not None
        ),
        gaps=tuple(f"{at * step:.1f}" for at, value in enumerate(values) if value is None),
    )
