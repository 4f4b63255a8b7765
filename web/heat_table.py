"""Counts of names against names, as a table whose cells are shaded by how much they hold.

Pure. A table and not a chart: it needs no twin for those who cannot see it, and draws at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

LINES_MAX = 12
COLUMNS_MAX = 8
LEVELS = 4


@dataclass(frozen=True, slots=True)
class HeatCell:
    count: int
    level: int
    """0 for nothing, up to `LEVELS` for the most of the table; a few are never the strongest."""
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class HeatLine:
    key: str
    cells: tuple[HeatCell, ...]
    total: int
    """Of the whole line, columns that are not shown included."""


@dataclass(frozen=True, slots=True)
class HeatTable:
    columns: tuple[str, ...]
    lines: tuple[HeatLine, ...]
    left_out: int
    """What stands in lines and columns that are not shown."""


def heat_table(
    counts: Mapping[tuple[str, str], int],
    *,
    marked: Collection[tuple[str, str]] = (),
    is_whole: bool = False,
) -> HeatTable | None:
    """Return a table of counts by (line, column) pairs, the fullest lines and columns first. None
    for no counts. With `is_whole` no line or column is left out.
    """
    lines, columns = Counter[str](), Counter[str]()
    for (line, column), count in counts.items():
        lines[line] += count
        columns[column] += count
    if not counts:
        return None
    most = max(LEVELS, *counts.values())
    shown = tuple(name for name, _ in _fullest(columns)[: None if is_whole else COLUMNS_MAX])
    heat_lines = tuple(
        HeatLine(line, tuple(_cell(counts, marked, line, one, most) for one in shown), total)
        for line, total in _fullest(lines)[: None if is_whole else LINES_MAX]
    )
    held = sum(cell.count for line in heat_lines for cell in line.cells)
    return HeatTable(shown, heat_lines, sum(counts.values()) - held)


def _fullest(sums: Counter[str]) -> list[tuple[str, int]]:
    return sorted(sums.items(), key=lambda counted: (-counted[1], counted[0]))


def _cell(
    counts: Mapping[tuple[str, str], int],
    marked: Collection[tuple[str, str]],
    line: str,
    column: str,
    most: int,
) -> HeatCell:
    count = counts.get((line, column), 0)
    return HeatCell(count, -(-count * LEVELS // most), (line, column) in marked)
