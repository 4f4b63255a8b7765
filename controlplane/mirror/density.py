"""How many instants began per lane and stretch of time: what a timeline shows where single instants
would be too many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Case, CharField, Count, F, Q, QuerySet, Value, When
from django.db.models.functions import Substr

from controlplane.mirror.timeline_rows import BORROWING, instants_in, undone_in
from controlplane.tables.models import Table
from workers.clock import InstantTime, parse_instant

LaneColumn = Literal["action", "writer", "stream"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityCell:
    lane: str
    start_ms: int
    count: int
    pending: int


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
) -> list[DensityCell]:
    """Counts of instants requested in [since, until], those among them that were taken back, by
    lane and bin; what has another's instant time counts when it was made. Two queries; the busiest
    lanes only.
    """
    shown = None if actions is None else list(actions)
    how = None if states is None else list(states)
    asked_for = Q(requested_at__gte=since)
    made = Q(action__in=BORROWING, completed_at__gte=since)
    kept_instants = instants_in(table, until=until, actions=shown, states=how).filter(
        asked_for | made
    )
    undone = undone_in(table, until=until, actions=shown, states=how).filter(asked_for)
    bins: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    lanes: dict[str, int] = defaultdict(int)
    for lane, start, count, pending in (
        *_counted(kept_instants.annotate(began=_BEGAN), by, bin_ms, ~Q(state="completed")),
        *_counted(undone.annotate(began=F("requested_at")), by, bin_ms, Q(pk__isnull=True)),
    ):
        tally = bins[lane, start - start % bin_ms]
        tally[0] += count
        tally[1] += pending
        lanes[lane] += count
    kept = set(sorted(lanes, key=lambda lane: -lanes[lane])[:_LANES_MAX])
    return [
        DensityCell(lane=lane, start_ms=start, count=found, pending=pending)
        for (lane, start), (found, pending) in bins.items()
        if lane in kept
    ]


def _counted(
    window: QuerySet[Any], by: str, bin_ms: int, is_pending: Q
) -> Iterator[tuple[str, int, int, int]]:
    """(lane, start in ms, how many, how many of them pending)."""
    digits, rest = next(
        ((digits, rest) for width, digits, rest in _PREFIXES if width <= bin_ms), (14, "")
    )
    counted = (
        window.annotate(lane=_COLUMNS[by], prefix=Substr("began", 1, digits))
        .values_list("lane", "prefix")
        .annotate(found=Count("pk"), pending=Count("pk", filter=is_pending))
        .order_by()
    )
    for lane, prefix, count, pending in counted:
        yield lane, parse_instant(prefix + rest), count, pending
