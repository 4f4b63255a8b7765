"""Rounds that measure streams: only of tables that have some and that moved on since, no more than
fit a round, and none starves.

Whoever was never measured comes first, then whoever was tried longest ago. One query says who is
due, however many tables there are. Several processes may be at it: each table is measured by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, F, OuterRef, Q, Subquery
from django.utils import timezone

from controlplane.mirror.models import InstantRecord, JoinMeasure, StreamStatus, SyncMark
from controlplane.mirror.streams import REST_MAX, measure_now, rest_after
from controlplane.tables.models import Table
from workers.clock import Clock, InstantTime, SystemClock

BUDGET_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRound:
    measured: int
    left: int
    """Due, and left to the next round."""


def measure_round(*, budget_s: float = BUDGET_S, clock: Clock | None = None) -> MeasureRound:
    """One table at least, where one is due."""
    clock = clock or SystemClock()
    began, ends_s = timezone.now(), clock.monotonic_s() + budget_s
    due = [found for found in _moved() if _has_rested(found[0], began)]
    measured = 0
    for number, (table, newest) in enumerate(due):
        if number and clock.monotonic_s() > ends_s:
            return MeasureRound(measured=measured, left=len(due) - number)
        if _take(table, began):
            measured += measure_now(table, newest, timezone.now())
    return MeasureRound(measured=measured, left=0)


def _moved() -> list[tuple[Table, InstantTime]]:
    """Tables with streams whose newest commit, at the time given, was not measured; longest
    untried first.
    """
    completed = InstantRecord.objects.filter(table=OuterRef("pk"), state="completed")
    newest = completed.order_by("-completed_at").values("completed_at")[:1]
    named = InstantRecord.objects.filter(table=OuterRef("pk")).exclude(stream="")
    measured = StreamStatus.objects.filter(table=OuterRef("pk"))
    tables = (
        Table.objects.select_related("sync_mark", "join_measure")
        .defer("join_measure__sample")
        .annotate(newest=Subquery(newest))
        .filter(
            ~Q(groups=[]) | Exists(named) | Exists(measured),
            newest__isnull=False,
            sync_mark__isnull=False,
        )
        .exclude(join_measure__sampled_instant=F("newest"))
        .order_by(F("sync_mark__measured_at").asc(nulls_first=True), "pk")
    )
    return [(table, table.newest) for table in tables]


def _has_rested(table: Table, now: datetime) -> bool:
    """One that could not be measured rests as well."""
    tried_at = table.sync_mark.measured_at
    if tried_at is None:
        return True
    last: JoinMeasure | None = getattr(table, "join_measure", None)
    return now - tried_at >= (REST_MAX if last is None else rest_after(last.took_ms))


def _take(table: Table, began: datetime) -> bool:
    """False when another process has tried it in the meantime."""
    untried = Q(measured_at__isnull=True) | Q(measured_at__lt=began)
    marks = SyncMark.objects.filter(untried, table=table)
    return bool(marks.update(measured_at=timezone.now()))
