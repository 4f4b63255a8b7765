"""How many instants began per lane and stretch of time: what a timeline shows where single instants
would be too many.

Active instants and what was taken back are counted as they are. So is a short history; of a long
one the counts that the sync keeps are added up, and only what its edges cut off is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import (
    Case,
    CharField,
    Count,
    F,
    IntegerField,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Substr

from controlplane.mirror.history_counts import LEVELS
from controlplane.mirror.models import HistoryCount
from controlplane.mirror.timeline_rows import (
    BORROWING,
    HistoryReach,
    history_reach,
    instants_in,
    undone_in,
)
from controlplane.tables.models import Table
from workers.clock import InstantTime, format_instant, parse_instant
from workers.timeline.instant import State

_REWRITES = {"COMPACT": "compaction", "LOG_COMPACT": "logcompaction", "CLUSTER": "clustering"}
_ACTION_LANE = Case(
    *(When(operation_type=kind, then=Value(lane)) for kind, lane in _REWRITES.items()),
    default=F("action"),
    output_field=CharField(),
)
_BEGAN = Case(
    When(action__in=BORROWING, completed_at__isnull=False, then=F("completed_at")),
    default=F("requested_at"),
    output_field=CharField(),
)
_COLUMNS = {"action": _ACTION_LANE, "writer": F("writer_name"), "stream": F("stream")}
_LANES_MAX = 40
# An instant is text, so its first digits are a minute, an hour or a day: the database groups by
# them without arithmetic.
_PREFIXES = (
    (86_400_000, 8, "000000"),
    (3_600_000, 10, "0000"),
    (60_000, 12, "00"),
    (1_000, 14, ""),
)
_NONE_PENDING: Final = Value(0, IntegerField())


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityCell:
    lane: str
    start_ms: int
    count: int
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Density:
    cells: list[DensityCell]
    """Of the busiest lanes."""
    total: int
    """Of all lanes."""


def lane_name(action: str, operation_type: str) -> str:
    """A compaction completes as a commit, a clustering as a replacecommit; people look for what was
    done.
    """
    return _REWRITES.get(operation_type, action)


def timeline_density(
    table: Table,
    *,
    since: InstantTime,
    until: InstantTime,
    by: str,
    bin_ms: int,
    actions: Iterable[str] | None = None,
    states: Iterable[str] | None = None,
    history: HistoryReach | None = None,
) -> Density:
    """Counts of instants requested in [since, until], those among them that were taken back, by
    lane and bin; what has another's instant time counts when it was made, while it is active. One
    query, and one more where `history` is not given. A bin is a whole number of the stretches of
    `history_counts.LEVELS` that fit into it.
    """
    shown = None if actions is None else list(actions)
    how = None if states is None else list(states)
    digits, rest = next(
        ((digits, rest) for width, digits, rest in _PREFIXES if width <= bin_ms), (14, "")
    )
    requested = Q(requested_at__gte=since)
    made = Q(action__in=BORROWING, completed_at__gte=since)
    active = instants_in(table, until=until, actions=shown, states=how, archived=False)
    undone = undone_in(table, until=until, actions=shown, states=how).filter(requested)
    parts = [
        _counted(
            active.filter(requested | made).annotate(began=_BEGAN),
            by,
            digits,
            ~Q(state=State.COMPLETED.value),
        ),
        _counted(undone.annotate(began=F("requested_at")), by, digits, Q(pk__isnull=True)),
    ]
    if how is None or State.COMPLETED.value in how:
        reach = history or history_reach(table)
        levels = [level for level in LEVELS if reach.is_counted and level[1] <= bin_ms]
        parts += _history(table, since, until, by, digits, levels, shown)
    bins: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    lanes: dict[str, int] = defaultdict(int)
    first, *others = parts
    for lane, prefix, count, pending in first.union(*others, all=True):
        start = parse_instant(prefix + rest)
        tally = bins[lane, start - start % bin_ms]
        tally[0] += count
        tally[1] += pending
        lanes[lane] += count
    kept = set(sorted(lanes, key=lambda lane: -lanes[lane])[:_LANES_MAX])
    return Density(
        cells=[
            DensityCell(lane=lane, start_ms=start, count=count, pending=pending)
            for (lane, start), (count, pending) in bins.items()
            if lane in kept
        ],
        total=sum(lanes.values()),
    )


def _history(
    table: Table,
    since: InstantTime,
    until: InstantTime,
    by: str,
    digits: int,
    levels: Collection[tuple[int, int]],
    actions: Collection[str] | None,
) -> Iterator[QuerySet[Any, Any]]:
    """The parts of it, each as `_counted` has them."""
    pieces = _pieces(parse_instant(since), parse_instant(until) + 1, levels)
    records = instants_in(table, actions=actions, archived=True)
    counts = HistoryCount.objects.filter(table=table)
    if actions is not None:
        counts = counts.filter(action__in=actions)
    among = [Q(digits=of, stretch__gte=low, stretch__lt=high) for of, low, high in pieces if of]
    if among:
        chosen = counts.filter(_any(among)).annotate(
            lane=_COLUMNS[by], prefix=Substr("stretch", 1, digits)
        )
        yield (
            chosen.values_list("lane", "prefix")
            .annotate(together=Sum("instants"), pending=_NONE_PENDING)
            .order_by()
        )
    for of, low, high in pieces:
        if not of:
            edge = records.filter(requested_at__gte=low, requested_at__lt=high)
            yield _counted(
                edge.annotate(began=F("requested_at")), by, digits, Q(completed_at__isnull=True)
            )


def _pieces(
    since_ms: int, until_ms: int, levels: Collection[tuple[int, int]]
) -> list[tuple[int, str, str]]:
    """The window as stretches of the longest kind that fits, each with its digits: (digits, first,
    end). Zero digits: so little is left that its instants are counted.
    """
    pieces = []
    inner, low, high = 0, since_ms, until_ms
    for digits, width in levels:
        begin, end = -(-low // width) * width, high // width * width
        if begin >= end:
            break
        pieces += [(inner, low, begin), (inner, end, high)]
        inner, low, high = digits, begin, end
    pieces.append((inner, low, high))
    return [(of, _edge(at, of), _edge(to, of)) for of, at, to in pieces if at < to]


def _edge(at_ms: int, digits: int) -> str:
    """As text that no instant of that second is before, not even one of 14 digits."""
    text = format_instant(at_ms)
    return text[:digits] if digits else text.removesuffix("000") if at_ms % 1000 == 0 else text


def _any(conditions: Collection[Q]) -> Q:
    together = Q()
    for condition in conditions:
        together |= condition
    return together


def _counted(window: QuerySet[Any], by: str, digits: int, is_pending: Q) -> QuerySet[Any, Any]:
    """(lane, digits of the begin, how many, how many of them pending)."""
    grouped: QuerySet[Any, Any] = (
        window.annotate(lane=_COLUMNS[by], prefix=Substr("began", 1, digits))
        .values_list("lane", "prefix")
        .annotate(together=Count("pk"), pending=Count("pk", filter=is_pending))
        .order_by()
    )
    return grouped
