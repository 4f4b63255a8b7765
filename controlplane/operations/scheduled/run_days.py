"""Runs of schedules by day: for a grid of schedules over days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Count
from django.db.models.functions import TruncDate
from django.utils import timezone

from controlplane.operations.models import ScheduleRun
from controlplane.operations.states import FINAL, OperationState
from controlplane.tables.access import Caller, visible_tables

DAYS_MAX: Final = 31
_SUCCEEDED: Final = OperationState.SUCCEEDED.value
_WITHOUT_WORK: Final = frozenset({"skipped", "nothing_to_do"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDayRow:
    """The runs of one schedule that were due on one day, in UTC."""

    schedule_id: UUID
    day: str
    """Such as `2026-01-31`."""
    succeeded: int
    failed: int
    """Ended in another way than by success, were refused, or were not run."""
    running: int
    """Not ended."""
    skipped: int
    """Skipped, or with nothing to do."""


def list_days(days: int) -> list[date]:
    """Return the last days in UTC, oldest first, today included."""
    today = timezone.now().astimezone(UTC).date()
    return [today - timedelta(days=at) for at in reversed(range(days))]


def schedule_days(reader: Caller, days: int) -> list[ScheduleDayRow]:
    """Return days with runs of the schedules on tables that `reader` sees. One query."""
    first = list_days(days)[0]
    runs = (
        ScheduleRun.objects.filter(
            schedule__table__in=visible_tables(reader).order_by(), due_at__date__gte=first
        )
        .annotate(day=TruncDate("due_at", tzinfo=UTC))
        .values_list("schedule_id", "day", "outcome", "operation__state")
        .annotate(count=Count("pk"))
        .order_by("schedule_id", "day")
    )
    counts: dict[tuple[UUID, date], dict[str, int]] = {}
    for schedule_id, day, outcome, state, count in runs:
        of_day = counts.setdefault((schedule_id, day), {})
        verdict = _verdict(outcome, state)
        of_day[verdict] = of_day.get(verdict, 0) + count
    return [
        ScheduleDayRow(
            schedule_id=schedule_id,
            day=day.isoformat(),
            succeeded=of_day.get("succeeded", 0),
            failed=of_day.get("failed", 0),
            running=of_day.get("running", 0),
            skipped=of_day.get("skipped", 0),
        )
        for (schedule_id, day), of_day in counts.items()
    ]


def _verdict(outcome: str, state: str | None) -> str:
    if outcome in _WITHOUT_WORK:
        return "skipped"
    if outcome != "requested":
        return "failed"
    if state is None or state == _SUCCEEDED:
        return "succeeded" if state else "skipped"
    return "failed" if state in FINAL else "running"
