"""Markers: how the server keeps up, what each pending instant announces, what of it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.errors import ControlPlaneError
from controlplane.mirror.marker_tree import marker_tree
from controlplane.operations.queries import MarkerServerStatus, SampleRow, marker_server_status
from controlplane.tables.access import Permission, access_table
from controlplane.writers.markers import marker_directories
from web.refusals import page, person, refusal_of
from web.sparkline import sparkline

if TYPE_CHECKING:
    from controlplane.tables.models import Table

_WIDTH, _HEIGHT = 900, 90
_BAR, _BAR_MOST = 7, 22.0


@dataclass(frozen=True, slots=True)
class SizeBin:
    name: str
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class FillBar:
    x: int
    height: float
    words: str


@dataclass(frozen=True, slots=True)
class Fill:
    """How evenly the MARKERS files of one instant are filled."""

    bars: tuple[FillBar, ...]
    width: int
    words: str


@dataclass(frozen=True, slots=True)
class Savings:
    """What was saved in the last minutes, or since the server started: what batching spared
    storage.
    """

    markers: int
    batches: int
    requests: int

    @property
    def times(self) -> float:
        return self.markers / self.batches if self.batches else 0.0


@require_safe
@page
def markers(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"page": "markers", "table": table, **_server(), **_directories(table)}
    return render(request, "pages/markers.html", context)


@require_safe
@page
def markers_part(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    if part == "server":
        return render(request, "fragments/marker_server.html", {"table": table, **_server()})
    context = {"table": table, **_directories(table)}
    return render(request, "fragments/marker_directories.html", context)


@require_safe
@page
def tree(request: HttpRequest, slug: str, instant: str) -> HttpResponse:
    """Reads storage: somebody asked for exactly this instant."""
    table = access_table(person(request), slug, Permission.VIEW)
    context: dict[str, Any] = {"page": "markers", "table": table, "instant": instant}
    try:
        context["tree"] = marker_tree(table, instant)
    except ControlPlaneError as error:
        context["problem"] = refusal_of(error).text
    return render(request, "pages/marker_tree.html", context)


def _server() -> dict[str, Any]:
    status = marker_server_status()
    latest = status.latest
    return {
        "server": status,
        "depths": sparkline(
            [sample.queue_depth if sample.up else None for sample in status.samples],
            width=_WIDTH,
            height=_HEIGHT,
        ),
        "sizes": _sizes(latest),
        "total": Savings(latest.markers, latest.batches, latest.requests) if latest else None,
        "recent": recent(status),
    }


def recent(status: MarkerServerStatus) -> Savings | None:
    """Between the first and the last look of the last five minutes; None when it was started anew
    in between, or looked at once.
    """
    seen = [sample for sample in status.samples if sample.up]
    if len(seen) < 2 or seen[-1].batches < seen[0].batches or seen[-1].markers < seen[0].markers:
        return None
    first, last = seen[0], seen[-1]
    return Savings(
        last.markers - first.markers,
        last.batches - first.batches,
        last.requests - first.requests,
    )


def _sizes(latest: SampleRow | None) -> list[SizeBin]:
    """Batches by how many markers each made durable at once."""
    counts = latest.batch_sizes if latest else {}
    most = max(counts.values(), default=0)
    ordered = sorted(counts.items(), key=lambda counted: _least(counted[0]))
    return [SizeBin(name, count, count / most if most else 0.0) for name, count in ordered]


def fill_of(files: Sequence[tuple[str, int]]) -> Fill | None:
    """None with direct markers, which have no such files."""
    if not files:
        return None
    counts = [count for _, count in files]
    most = max(1, *counts)
    bars = tuple(
        FillBar(at * _BAR, round(_BAR_MOST * count / most, 1), f"{name}: {count:,}")
        for at, (name, count) in enumerate(files)
    )
    spread = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {most:,}"
    words = f"{len(files)} file{'' if len(files) == 1 else 's'}, {spread} markers each"
    return Fill(bars, len(files) * _BAR, words)


def _least(name: str) -> int:
    least = name.partition("-")[0]
    return int(least) if least.isdecimal() else 0


def _directories(table: Table) -> dict[str, Any]:
    directories = marker_directories(table, timezone.now())
    return {
        "directories": [
            (one, fill_of([(each.name, each.markers) for each in one.files])) for one in directories
        ],
        "markers_total": sum(one.markers for one in directories),
        "orphans": sum(one.is_orphan for one in directories),
    }
