"""Lines of the result: what was compared, with whom, the goal, and whether it was met."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.engine import Measured


@dataclass(frozen=True, slots=True)
class Goal:
    bound: float
    unit: str = "x"
    is_least: bool = True
    """At least `bound`, otherwise at most."""

    @property
    def text(self) -> str:
        return f"{'>=' if self.is_least else '<='} {self.bound:g}{self.unit}"

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.is_least else value <= self.bound

    def halved(self) -> Goal:
        """What a lead may shrink to with ten times the rows."""
        return Goal(self.bound / 2, self.unit)


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    peer: str
    ours_s: float | None
    peer_s: float | None
    ratio: float | None
    """In the goal's unit. `x`: the peer's time by ours for a goal of at least, ours by the peer's
    for one of at most.
    """
    goal: Goal | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def of_rows(self, rows: int) -> Line:
        """The line with its size in the name, save for the million that the set has."""
        return self if rows == 1_000_000 else replace(self, name=f"{self.name}, {rows:,} rows")

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.ratio is not None and self.goal.is_met(self.ratio)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "peer": self.peer,
            "ours_s": _rounded(self.ours_s),
            "peer_s": _rounded(self.peer_s),
            "ratio": _rounded(self.ratio),
            "goal": self.goal.text if self.goal else None,
            "met": self.met,
        }


def compared(
    name: str, peer: str, ours: Sequence[Measured], theirs: Sequence[Measured], goal: Goal | None
) -> Line:
    """Medians against each other."""
    ours_s = statistics.median(one.seconds for one in ours)
    peer_s = statistics.median(one.seconds for one in theirs)
    is_overhead = goal is not None and not goal.is_least
    ratio = ours_s / peer_s if is_overhead else peer_s / ours_s
    details = {"ours": spread(ours), "peer": spread(theirs)}
    return Line(name, peer, ours_s, peer_s, ratio, goal, details)


def spread(measured: Sequence[Measured]) -> dict[str, Any]:
    seconds = [one.seconds for one in measured]
    return {
        "runs": len(seconds),
        "min_s": _rounded(min(seconds)),
        "max_s": _rounded(max(seconds)),
        "cpu_s": _rounded(statistics.median(one.cpu_s for one in measured)),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def as_text(lines: Sequence[Line]) -> str:
    """The table for a screen."""
    head = ("workload", "peer", "ours s", "peer s", "ratio", "goal", "", "ours cpu", "peer cpu")
    rows = [head, *map(_cells, lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    laid_out = [
        "  ".join(
            cell.ljust(width) if at in (0, 1, 5, 6) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([laid_out[0], "-" * len(laid_out[0]), *laid_out[1:]])


def _cells(line: Line) -> tuple[str, ...]:
    unit = line.goal.unit if line.goal else "x"
    verdict = {True: "met", False: "MISSED", None: ""}[line.met]
    return (
        line.name,
        line.peer,
        _number(line.ours_s),
        _number(line.peer_s),
        f"{line.ratio:.2f}{unit}" if line.ratio is not None else "failed",
        line.goal.text if line.goal else "",
        verdict,
        _number(line.details.get("ours", {}).get("cpu_s")),
        _number(line.details.get("peer", {}).get("cpu_s")),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
