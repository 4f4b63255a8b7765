"""What the File groups page draws beside its lists: how evenly bytes lie, and what writes cost.
Pure: rows in, lines and plain dicts out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from urllib.parse import urlencode

from controlplane.mirror.queries.files import PartitionRow
from controlplane.mirror.queries.write_costs import WriteCost
from web import figures
from web.chart_marks import Figure
from web.templatetags.lake import size

SKEW = 4.0
"""This many times the average is worth a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLine:
    """A tile of the treemap as its twin says it."""

    row: PartitionRow
    share_pct: float
    """Of the table's bytes."""
    average_bytes: float
    """Of one file group."""
    skew: float | None
    """The largest file group as a multiple of the average; None where there are fewer than two."""
    is_skewed: bool
    is_large: bool
    """Against the median of all partitions."""


def partition_lines(rows: Sequence[PartitionRow]) -> list[PartitionLine]:
    """The largest first."""
    total = sum(row.bytes for row in rows)
    middle = median(row.bytes for row in rows) if rows else 0
    return [
        _line(row, total, middle)
        for row in sorted(rows, key=lambda row: (-row.bytes, row.partition))
    ]


def _line(row: PartitionRow, total: int, middle: float) -> PartitionLine:
    average = row.bytes / row.file_groups if row.file_groups else 0.0
    skew = row.largest_bytes / average if average and row.file_groups > 1 else None
    return PartitionLine(
        row=row,
        share_pct=100 * row.bytes / total if total else 0.0,
        average_bytes=average,
        skew=skew,
        is_skewed=skew is not None and skew > SKEW,
        is_large=bool(middle) and row.bytes > SKEW * middle,
    )


def partition_treemap(lines: Sequence[PartitionLine], address: str) -> Figure:
    """Each tile says its bytes; one that is worth a look has another tone and says why."""
    tiles = [
        figures.Tile(
            label=line.row.partition,
            bytes=line.row.bytes,
            words=f"{line.row.bytes:,} bytes, {line.share_pct:.1f} % of the table, in "
            f"{line.row.file_groups:,} file groups{_why(line)}",
            link=f"{address}?{urlencode({'partition': line.row.partition})}",
            tone="warn" if line.is_skewed or line.is_large else "busy",
            size=size(line.row.bytes) + (" !" if line.is_skewed or line.is_large else ""),
        )
        for line in lines
    ]
    return figures.treemap(tiles, name="Bytes by partition", height=260)


def _why(line: PartitionLine) -> str:
    reasons = []
    if line.is_skewed:
        reasons.append(f"its largest file group has {line.skew:.1f} times the average")
    if line.is_large:
        reasons.append("it is far larger than most partitions")
    return "".join(f"; {reason}" for reason in reasons)


def amplification(writes: Sequence[WriteCost]) -> Figure | None:
    """Per write what it changed beside what it wrote; rewrites have a hatching of their own."""
    if not any(write.written for write in writes):
        return None
    series = [
        ("rows changed", "good", "", [write.changed for write in writes]),
        ("rows written", "busy", "", [0 if one.is_rewrite else one.written for one in writes]),
        ("rows rewritten", "warn", "/", [one.written if one.is_rewrite else 0 for one in writes]),
    ]
    names = [write.instant for write in writes]
    data = [
        {
            "type": "bar",
            "name": name,
            "x": names,
            "y": [count or None for count in counts],
            "customdata": [[escape(write.lane)] for write in writes],
            "hovertemplate": f"%{{customdata[0]}} %{{x}}<br>%{{y}} {name}<extra></extra>",
            "meta": {"tone": tone},
            "marker": {"pattern": {"shape": shape, "solidity": 0.35}},
        }
        for name, tone, shape, counts in series
        if any(counts)
    ]
    return {"data": data, "layout": figures.instants_layout(names, height=260)}
