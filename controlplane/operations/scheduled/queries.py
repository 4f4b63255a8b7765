"""Schedules as plain rows: when each is due next, what its last turns came to, in whose name.

What a schedule comes after may belong to a table that the reader may not see; then he reads that
there is something, and nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db.models import Max, QuerySet
from django.http import Http404
from django.utils import timezone

from controlplane.operations.models import Operation, Schedule, ScheduleRun
from controlplane.operations.query_sources import schedules_shown_whole, without_statement
from controlplane.operations.scheduled.due_times import Cron, next_due
from controlplane.operations.scheduled.wishes import times_of
from controlplane.operations.states import OPEN
from controlplane.paging import PAGE_ROWS
from controlplane.tables.access import Caller, Permission, access_table, visible_tables
from controlplane.tables.messages import select_message
from controlplane.tables.models import Table

NEXT_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRunRow:
    schedule_id: UUID
    schedule_name: str
    due_at: datetime
    at: datetime
    outcome: str
    """requested, skipped, nothing_to_do, not_run or refused"""
    operation_id: UUID | None
    operation_state: str
    after_operation_id: UUID | None
    """What ended before it; None also where the reader may not see it."""
    after_table: str
    """Its table's slug."""
    missed: int
    """Due times before this one for which it ran as well."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    id: UUID
    table_slug: str
    table_name: str
    name: str
    kind: str
    service: str
    parameters: Mapping[str, Any]
    trigger: str
    """every, cron or after"""
    every_s: int
    cron: str
    time_zone: str
    words: str
    """A cron expression in English."""
    after_schedule_id: UUID | None
    after_schedule_name: str
    after_operation_id: UUID | None
    after_table: str
    """The slug of the table of what it comes after; empty where the reader may not see it."""
    owner: str
    """In whose name it runs; empty where that user is gone."""
    is_paused: bool
    is_over: bool
    """It comes after one operation, and has had its turn; or what it came after is gone."""
    next_due: list[datetime]
    """The next five due times."""
    waits_for: UUID | None
    """The operation of its last run, while that has not ended: until then no other is asked for."""
    last_run: ScheduleRunRow | None


def schedules_of(table: Table, reader: Caller) -> list[ScheduleRow]:
    """By name. A handful of queries, however many there are."""
    return _rows(_schedules().filter(table=table).order_by("name"), reader)


def visible_schedules(reader: Caller) -> list[ScheduleRow]:
    """Schedules of all tables that `reader` sees, by table and name."""
    schedules = _schedules().filter(table__in=visible_tables(reader).order_by())
    return _rows(schedules.order_by("table__slug", "name"), reader)


def all_schedules(slug: str = "") -> list[ScheduleRow]:
    """For whoever has a shell: of one table, or of all. Of what they come after nothing is said."""
    schedules = _schedules().order_by("table__slug", "name")
    return _rows(schedules.filter(table__slug=slug) if slug else schedules, AnonymousUser())


def schedule_row(schedule: Schedule, reader: Caller) -> ScheduleRow:
    """One, as `access_schedule` gave it."""
    return _rows(_schedules().filter(pk=schedule.pk), reader)[0]


def access_schedule(
    reader: Caller, slug: str, schedule_id: UUID, permission: Permission
) -> Schedule:
    """The schedule itself, for whoever may do this to its table.

    Raises what `access_table` raises; Http404 for a schedule that the table has not.
    """
    table = access_table(reader, slug, permission)
    schedule = _schedules().filter(pk=schedule_id, table=table).first()
    if schedule is None:
        raise Http404(f"schedule {schedule_id} not found")
    return schedule


def runs_of(of: Schedule | Table, reader: Caller, limit: int = PAGE_ROWS) -> list[ScheduleRunRow]:
    """The newest first, of one schedule or of all of a table."""
    runs = _runs()
    runs = runs.filter(schedule=of) if isinstance(of, Schedule) else runs.filter(schedule__table=of)
    newest = list(runs.order_by("-pk")[:limit])
    seen = _seen_tables([run.after for run in newest], reader)
    whole = schedules_shown_whole(reader, {run.schedule for run in newest if run.words})
    return [_run_row(run, seen, whole) for run in newest]


def _schedules() -> QuerySet[Schedule]:
    return Schedule.objects.select_related(
        "table", "owner", "after_schedule__table", "after_operation__table"
    )


def _runs() -> QuerySet[ScheduleRun]:
    return ScheduleRun.objects.select_related("schedule__table", "operation", "after__table")


def _rows(schedules: QuerySet[Schedule], reader: Caller) -> list[ScheduleRow]:
    rows = list(schedules)
    keys = [schedule.pk for schedule in rows]
    newest = ScheduleRun.objects.filter(schedule__in=keys).values("schedule").annotate(n=Max("pk"))
    last_runs = {run.schedule_id: run for run in _runs().filter(pk__in=newest.values("n"))}
    open_runs = _runs().filter(schedule__in=keys, operation__state__in=sorted(OPEN)).order_by("pk")
    waits = {run.schedule_id: run.operation_id for run in open_runs}
    before = [schedule.after_schedule or schedule.after_operation for schedule in rows]
    seen = _seen_tables([*before, *(run.after for run in last_runs.values())], reader)
    said = {key for key, run in last_runs.items() if run.words}
    whole = schedules_shown_whole(reader, (one for one in rows if one.pk in said))
    now = timezone.now()
    return [
        _row(schedule, last_runs.get(schedule.pk), waits.get(schedule.pk), seen, whole, now, reader)
        for schedule in rows
    ]


def _seen_tables(
    predecessors: Iterable[Schedule | Operation | None], reader: Caller
) -> frozenset[int]:
    """Of the tables of these the ones that the reader sees."""
    keys = {each.table_id for each in predecessors if each is not None}
    if not keys:
        return frozenset()
    return frozenset(visible_tables(reader).filter(pk__in=keys).values_list("pk", flat=True))


def _row(
    schedule: Schedule,
    last_run: ScheduleRun | None,
    waits_for: UUID | None,
    seen: frozenset[int],
    whole: frozenset[UUID],
    now: datetime,
    reader: Caller,
) -> ScheduleRow:
    times = times_of(schedule)
    is_idle = schedule.is_paused or times is None
    before = schedule.after_schedule or schedule.after_operation
    is_seen = before is not None and before.table_id in seen
    return ScheduleRow(
        id=schedule.pk,
        table_slug=schedule.table.slug,
        table_name=schedule.table.name,
        name=schedule.name,
        kind=schedule.kind,
        service=schedule.service,
        parameters=_shown_parameters(schedule, reader),
        trigger=schedule.trigger,
        every_s=schedule.every_s,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        words=times.words if isinstance(times, Cron) else "",
        after_schedule_id=schedule.after_schedule_id if is_seen else None,
        after_schedule_name=(
            schedule.after_schedule.name if is_seen and schedule.after_schedule else ""
        ),
        after_operation_id=schedule.after_operation_id if is_seen else None,
        after_table=before.table.slug if is_seen and before is not None else "",
        owner=schedule.owner.get_username() if schedule.owner is not None else "",
        is_paused=schedule.is_paused,
        is_over=times is None
        and (before is None or (schedule.after_schedule is None and last_run is not None)),
        next_due=[] if is_idle or times is None else next_due(times, now, NEXT_SHOWN),
        waits_for=waits_for,
        last_run=None if last_run is None else _run_row(last_run, seen, whole),
    )


def _shown_parameters(schedule: Schedule, reader: Caller) -> Mapping[str, Any]:
    parameters: Mapping[str, Any] = schedule.parameters
    source = parameters.get("source")
    if schedule.owner_id == reader.pk or not isinstance(source, Mapping):
        return parameters
    return {**parameters, "source": without_statement(source)}


def _run_row(run: ScheduleRun, seen: frozenset[int], whole: frozenset[UUID]) -> ScheduleRunRow:
    is_seen = run.after is not None and run.after.table_id in seen
    return ScheduleRunRow(
        schedule_id=run.schedule_id,
        schedule_name=run.schedule.name,
        due_at=run.due_at,
        at=run.at,
        outcome=run.outcome,
        operation_id=run.operation_id,
        operation_state=run.operation.state if run.operation is not None else "",
        after_operation_id=run.after_id if is_seen else None,
        after_table=run.after.table.slug if is_seen and run.after is not None else "",
        missed=run.missed,
        words=select_message(run.words, is_whole=run.schedule_id in whole),
    )
