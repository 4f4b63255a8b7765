"""A service's plan as a page shows it: items by effect, the bytes to delete as a treemap. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.http import QueryDict

from controlplane.operations.actions import PlanItemRow, ServicePlanView
from web import figures
from web.chart_marks import Figure
from web.list_parts import ListPart, cut_list

ITEMS_SHOWN = 500
_INSTANT = re.compile(r"\A[0-9]{17}\Z")
_COUNTED = re.compile(r"\A([0-9]+ rows) of (.+)\Z", re.DOTALL)
_ORDER = ("undo", "delete", "unlock", "write", "merge", "rewrite", "archive", "keep")
_TONES = {
    "undo": "bad",
    "delete": "bad",
    "unlock": "bad",
    "write": "busy",
    "merge": "busy",
    "rewrite": "busy",
}


@dataclass(frozen=True, slots=True)
class PlanLine:
    item: PlanItemRow
    partition: str
    name: str
    instant: str
    """The instant that the item is; empty for files and file groups."""


@dataclass(frozen=True, slots=True)
class ItemGroup:
    effect: str
    tone: str
    lines: ListPart[PlanLine]
    count: int
    bytes: int

    @property
    def has_details(self) -> bool:
        return any(line.item.detail for line in self.lines)


def item_groups(plan: ServicePlanView, query: QueryDict) -> list[ItemGroup]:
    """What is taken away first; within an effect in the order of the plan, which is the order of
    doing.
    """
    by_effect: dict[str, list[PlanItemRow]] = defaultdict(list)
    for item in plan.items:
        by_effect[item.effect].append(item)
    ordered = sorted(by_effect, key=lambda effect: (_rank(effect), effect))
    return [
        ItemGroup(
            effect=effect,
            tone=_TONES.get(effect, "quiet"),
            lines=cut_list(query, effect, [_line(item) for item in by_effect[effect]], ITEMS_SHOWN),
            count=len(by_effect[effect]),
            bytes=sum(item.bytes for item in by_effect[effect]),
        )
        for effect in ordered
    ]


def deletion_treemap(plan: ServicePlanView) -> Figure | None:
    """None when nothing with a size is deleted."""
    deleted = [(item.what, item.bytes) for item in plan.items if item.effect == "delete"]
    return files_treemap(deleted)


def files_treemap(files: Sequence[tuple[str, int]]) -> Figure | None:
    """Files by (path, bytes), one tile each while they are few, one per partition when many."""
    sized = [(path, size) for path, size in files if size > 0]
    if not sized:
        return None
    tiles = [
        figures.Tile(
            path.rpartition("/")[2],
            size,
            f"{size:,} bytes",
            tone="bad",
            parent=path.rpartition("/")[0],
        )
        for path, size in sized
    ]
    if len(tiles) > figures.TILES_MAX:
        sums: dict[str, int] = defaultdict(int)
        for path, size in sized:
            sums[path.rpartition("/")[0]] += size
        tiles = [
            figures.Tile(name, size, f"{size:,} bytes", tone="bad") for name, size in sums.items()
        ]
    return figures.treemap(tiles, name="Bytes to delete", height=200)


def _line(item: PlanItemRow) -> PlanLine:
    if _INSTANT.match(item.what):
        return PlanLine(item, "", item.what, item.what)
    if item.effect == "write":  # What comes does not lie in the table yet.
        return PlanLine(item, "", item.what, "")
    counted = _COUNTED.match(item.what)
    rows, path = counted.groups() if counted else ("", item.what)
    partition, _, name = path.rpartition("/")
    return PlanLine(item, partition, f"{rows} of {name}" if rows else name, "")


def _rank(effect: str) -> int:
    return _ORDER.index(effect) if effect in _ORDER else len(_ORDER)
