"""The turns of schedules: what is due becomes an operation, once.

A turn is a due time, or the end of an operation that a schedule comes after. Its `ScheduleRun`, the
operation and the next due time are one transaction, and a schedule has one run of each turn:
however many look at once, and whenever one of them dies, there is one operation or none yet.

- Several due times that have passed while nobody looked are one run, which says how many it is for.
- A due time that comes while the last run is still open is skipped, and says so.
- What comes after something waits until its own last run has ended. Then the newest success counts;
  one that did not succeed is written down as the reason why nothing was run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.errors import ControlPlaneError
from controlplane.events import publish_change
from controlplane.operations.ask import Ask, Requester
from controlplane.operations.models import Operation, Schedule, ScheduleRun
from controlplane.operations.requesting import do_request_unseen
from controlplane.operations.scheduled.due_times import missed_between
from controlplane.operations.scheduled.predecessors import Ending, endings_of
from controlplane.operations.scheduled.wishes import Trigger, ask_of, times_of
from controlplane.operations.states import OPEN
from controlplane.tables.access import Permission, may
from workers.errors import LakehouseError

log = logging.getLogger(__name__)

_O = ScheduleRun.Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """One that has come, before it is known what becomes of it."""

    name: str
    due_at: datetime
    next_due_at: datetime | None = None
    after: Operation | None = None
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What would be asked for, planned outside any transaction; or why nothing can be."""

    ask: Ask[Any] | None = None
    plan: Any = None
    outcome: ScheduleRun.Outcome = _O.REQUESTED
    words: str = ""


def run_due_schedules(*, now: datetime | None = None) -> list[ScheduleRun]:
    """Take every turn that has come; what was written down of each, also where nothing was asked
    for. A table whose storage does not answer is tried again at the next look.
    """
    at = now or timezone.now()
    active = Schedule.objects.filter(is_paused=False).select_related("table", "owner")
    timed = active.filter(next_due_at__lte=at).order_by("next_due_at", "pk")
    following = active.filter(trigger=Trigger.AFTER).order_by("pk")
    runs: list[ScheduleRun] = []
    for schedule in [*timed, *following.select_related("after_schedule__table")]:
        try:
            runs += _take_turns(schedule, at)
        except (ControlPlaneError, LakehouseError, OSError) as error:
            log.warning("a run is postponed: schedule=%s error=%s", schedule.pk, error)
    return runs


def open_run_of(schedule: Schedule) -> ScheduleRun | None:
    """Its newest run whose operation has not ended."""
    runs = ScheduleRun.objects.filter(schedule=schedule, operation__state__in=sorted(OPEN))
    return runs.order_by("-pk").first()


def _take_turns(schedule: Schedule, now: datetime) -> list[ScheduleRun]:
    if schedule.trigger == Trigger.AFTER:
        return _take_endings(schedule)
    run = _take_due_time(schedule, now)
    return [] if run is None else [run]


def _take_due_time(schedule: Schedule, now: datetime) -> ScheduleRun | None:
    times = times_of(schedule)
    assert times is not None, schedule
    assert schedule.next_due_at is not None, schedule
    due_at = max(times.latest(now), schedule.next_due_at)
    turn = _Turn(
        name=due_at.isoformat(),
        due_at=due_at,
        next_due_at=next(times.after(now)),
        missed=missed_between(times, schedule.next_due_at, due_at),
    )
    if open_run_of(schedule) is not None:
        skipped = _Prepared(outcome=_O.SKIPPED, words="its last run had not ended")
        return _write_down(schedule, turn, skipped)
    return _write_down(schedule, turn, _prepared(schedule))


def _take_endings(schedule: Schedule) -> list[ScheduleRun]:
    endings = endings_of(schedule)
    if not endings or open_run_of(schedule) is not None:
        return []
    newest = next((ending for ending in reversed(endings) if ending.has_succeeded), None)
    runs: list[ScheduleRun | None] = []
    for ending in endings:
        turn = _Turn(name=ending.turn, due_at=ending.at, after=ending.operation)
        if ending is newest:
            runs.append(_write_down(schedule, turn, _prepared(schedule)))
        else:
            runs.append(_write_down(schedule, turn, _not_run(ending)))
    return [run for run in runs if run is not None]


def _not_run(ending: Ending) -> _Prepared:
    if ending.has_succeeded:
        words = "what it comes after has succeeded again since"
        return _Prepared(outcome=_O.SKIPPED, words=words)
    return _Prepared(outcome=_O.NOT_RUN, words=f"what it comes after {ending.words}")


def _prepared(schedule: Schedule) -> _Prepared:
    """Plans, where there is a plan, so it may read storage. The rights of the owner are asked again
    here, and once more when the operation begins.
    """
    owner = schedule.owner
    if owner is None:
        return _Prepared(outcome=_O.REFUSED, words="nobody has its rights: its owner is gone")
    before = schedule.after_schedule or schedule.after_operation
    if before is not None and not may(owner, Permission.VIEW, before.table):
        words = f"{owner.get_username()} may no longer see what it comes after"
        return _Prepared(outcome=_O.REFUSED, words=words)
    try:
        ask = ask_of(schedule.table, schedule.kind, schedule.service, schedule.parameters)
        permission = ask.kind.permission(ask)
        if not may(owner, permission, schedule.table):
            words = f"{owner.get_username()} lacks the {permission.role} role"
            return _Prepared(outcome=_O.REFUSED, words=words)
        plan = ask.plan()
    except ControlPlaneError as error:
        if error.code == "storage_unavailable":
            raise
        return _Prepared(outcome=_O.NOT_RUN, words=str(error))
    if plan is not None and plan.blockers:
        return _Prepared(outcome=_O.NOT_RUN, words=f"it is blocked: {'; '.join(plan.blockers)}")
    if plan is not None and plan.is_empty:
        return _Prepared(outcome=_O.EMPTY, words="there was nothing to do")
    return _Prepared(ask=ask, plan=plan)


def _write_down(schedule: Schedule, turn: _Turn, prepared: _Prepared) -> ScheduleRun | None:
    """None where another look has taken this turn, or somebody changed the schedule meanwhile."""
    try:
        with transaction.atomic():
            held = _held(schedule)
            if held is None:
                return None
            run = _run(held, turn, prepared)
            held.next_due_at = turn.next_due_at
            held.save(update_fields=["next_due_at"])
            publish_change(held.table.slug, "operations")
            return run
    except IntegrityError:
        log.info("another process started this run: schedule=%s run=%s", schedule.pk, turn.name)
        return None


def _held(schedule: Schedule) -> Schedule | None:
    """The schedule as it was read, held until the transaction ends."""
    rows = Schedule.objects.select_related("table", "owner").select_for_update(of=("self",))
    return rows.filter(
        pk=schedule.pk,
        is_paused=False,
        changed_at=schedule.changed_at,
        next_due_at=schedule.next_due_at,
    ).first()


def _run(schedule: Schedule, turn: _Turn, prepared: _Prepared) -> ScheduleRun:
    operation: Operation | None = None
    outcome, words = prepared.outcome, prepared.words
    if prepared.ask is not None:
        assert schedule.owner is not None, schedule
        by = Requester.person(schedule.owner)
        reason = f"by the schedule {schedule.name}"
        try:
            operation = do_request_unseen(prepared.ask, by, prepared.plan, reason)
        except PermissionDenied as error:
            outcome, words = _O.REFUSED, str(error)
        except ControlPlaneError as error:
            outcome, words = _O.NOT_RUN, str(error)
    if outcome is _O.REFUSED:
        _record_refusal(schedule, words)
    return ScheduleRun.objects.create(
        schedule=schedule,
        turn=turn.name,
        due_at=turn.due_at,
        outcome=outcome,
        operation=operation,
        after=turn.after,
        missed=turn.missed,
        words=words[:500],
    )


def _record_refusal(schedule: Schedule, words: str) -> None:
    do_record(
        who=schedule.owner.get_username() if schedule.owner is not None else "",
        what="schedule.run",
        subject=schedule.table.slug,
        result="refused",
        reason=words,
        details={"schedule": str(schedule.pk), "name": schedule.name},
    )
