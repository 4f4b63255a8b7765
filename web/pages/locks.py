"""The table lock: who has it, who waits, and how long commits have waited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.tables.access import Permission, access_table
from controlplane.writers.locks import LockStatus, LockWait, lock_status, lock_waits
from web.refusals import page, person
from web.templatetags.lake import took

if TYPE_CHECKING:
    from controlplane.tables.models import Table

WAITS_LISTED = 50
WAITS_DRAWN = 60
_EDGES_MS = (1, 10, 100, 1_000, 10_000, 60_000)
_NAMES = (
    "under 1 ms",
    "1 to 10 ms",
    "10 to 100 ms",
    "100 ms to 1 s",
    "1 to 10 s",
    "10 s to 1 min",
    "1 min and more",
)
_WIDTH = 1000.0
_LEAST = 4.0


@dataclass(frozen=True, slots=True)
class Bin:
    name: str
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class Strip:
    """One wait or hold on the time axis of the figure."""

    x: float
    width: float
    y: int
    tone: str
    words: str


@dataclass(frozen=True, slots=True)
class Gantt:
    strips: tuple[Strip, ...]
    rows: tuple[str, ...]
    height: int
    first_ms: int
    last_ms: int


@require_safe
@page
def locks(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"page": "locks", "table": table, **_now(table), **_history(table)}
    return render(request, "pages/locks.html", context)


@require_safe
@page
def locks_part(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    if part == "history":
        return render(request, "fragments/lock_history.html", {"table": table, **_history(table)})
    return render(request, "fragments/lock_now.html", {"table": table, **_now(table)})


def _now(table: Table) -> dict[str, Any]:
    now = timezone.now()
    now_ms = int(now.timestamp() * 1000)
    status = lock_status(table, now)
    waiters = [
        (one, (now_ms - one.since_ms) / 1000, (one.until_ms - now_ms) / 1000)
        for one in (status.waiters if status else [])
    ]
    return {"lock": status, "waiters": waiters, "now_ms": now_ms}


def _history(table: Table) -> dict[str, Any]:
    waits = lock_waits(table)
    ordered = sorted(one.waited_ms for one in waits)
    return {
        "waits": waits[:WAITS_LISTED],
        "wait_count": len(waits),
        "bins": wait_bins(waits),
        "p50_ms": ordered[len(ordered) // 2] if ordered else None,
        "p95_ms": ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else None,
        "most_ms": ordered[-1] if ordered else None,
        "gantt": gantt(waits[:WAITS_DRAWN], lock_status(table, timezone.now())),
    }


def wait_bins(waits: list[LockWait]) -> list[Bin]:
    """By powers of ten; what is beyond the last edge is one bin more."""
    counts = [0] * (len(_EDGES_MS) + 1)
    for wait in waits:
        counts[sum(wait.waited_ms >= edge for edge in _EDGES_MS)] += 1
    most = max(counts)
    return [
        Bin(name, count, count / most if most else 0.0)
        for name, count in zip(_NAMES, counts, strict=True)
    ]


def gantt(waits: list[LockWait], status: LockStatus | None) -> Gantt | None:
    """One row per writer: how long it waited before each decision, and the holds that were seen."""
    spans = [
        (one.writer, one.decided_ms - one.waited_ms, one.decided_ms, "warn", one.waited_ms)
        for one in waits
    ]
    if not spans:
        return None
    first_ms = min(since for _, since, _, _, _ in spans)
    for hold in status.holders if status else []:
        if hold.since_ms is not None and hold.seen_ms >= first_ms:
            held_ms = hold.seen_ms - hold.since_ms
            spans.append((hold.writer, hold.since_ms, hold.seen_ms, "busy", held_ms))
    first_ms = min(since for _, since, _, _, _ in spans)
    last_ms = max(until for _, _, until, _, _ in spans)
    rows = tuple(dict.fromkeys(writer for writer, *_ in spans))[:8]
    scale = _WIDTH / max(1, last_ms - first_ms)
    strips = []
    for writer, since, until, tone, length_ms in spans:
        if writer not in rows:
            continue
        width = max(_LEAST, (until - since) * scale)
        x = min((since - first_ms) * scale, _WIDTH - width)
        verb = "waited" if tone == "warn" else "held it"
        strips.append(
            Strip(
                round(x, 1),
                round(width, 1),
                rows.index(writer) * 28 + (4 if tone == "warn" else 14),
                tone,
                f"{writer or 'not named'} {verb} {took(length_ms)}",
            )
        )
    return Gantt(tuple(strips), rows, len(rows) * 28, first_ms, last_ms)
