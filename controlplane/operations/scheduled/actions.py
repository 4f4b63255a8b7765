"""Making, changing, pausing and deleting schedules; all of it is in the audit.

A schedule runs with the rights of its owner, who made it or changed it last, so nobody has another
do what he may not do himself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import Http404
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.batches import delete_in_batches
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.events import publish_change
from controlplane.operations.ask import Requester
from controlplane.operations.models import Schedule, ScheduleRun
from controlplane.operations.registered import hold_registered
from controlplane.operations.scheduled.wishes import (
    CheckedWish,
    ScheduleWish,
    check_no_circle,
    checked_wish,
    first_due,
    times_of,
)
from controlplane.operations.states import OPEN
from controlplane.tables.models import Table

SCHEDULES_OF_A_TABLE_MAX = 200


def do_make_schedule(
    table: Table, wish: ScheduleWish, *, owner: User, by: Requester, reason: str = ""
) -> Schedule:
    """From now on it runs in the name of `owner`.

    Raises what `checked_wish` raises, InvalidRequest for a name that another schedule of the table
    has, NotAllowedNow for a table that was unregistered meanwhile.
    """
    checked = checked_wish(table, wish, owner)
    if Schedule.objects.filter(table=table).count() >= SCHEDULES_OF_A_TABLE_MAX:
        raise InvalidRequest("the table has too many schedules", most=SCHEDULES_OF_A_TABLE_MAX)
    schedule = Schedule(pk=uuid4(), table=table)
    return _store(schedule, checked, owner, by, reason, what="schedule.make")


def do_change_schedule(
    schedule: Schedule, wish: ScheduleWish, *, owner: User, by: Requester, reason: str = ""
) -> Schedule:
    """As if it were made now, by `owner`; one that is paused stays so. Raises what
    `do_make_schedule` raises.
    """
    checked = checked_wish(schedule.table, wish, owner)
    return _store(schedule, checked, owner, by, reason, what="schedule.change")


def do_pause_schedule(
    schedule: Schedule, *, is_paused: bool, by: Requester, reason: str = ""
) -> Schedule:
    """Pause it, or have it go on from now: what was due meanwhile is not made up for."""
    with transaction.atomic():
        held = _held(schedule.pk)
        if held.is_paused == is_paused:
            return held
        now = timezone.now()
        if not is_paused and times_of(held) is None:
            held.begins_at = now  # Ends of its predecessor while it was paused do not count.
        times = times_of(held)
        held.is_paused = is_paused
        held.changed_at = now
        held.next_due_at = None if is_paused or times is None else next(times.after(now))
        held.save()
        _record(held, by, reason, what="schedule.pause" if is_paused else "schedule.resume")
    return held


def do_delete_schedule(schedule: Schedule, *, by: Requester, reason: str = "") -> None:
    """Its operations stay. Raises NotAllowedNow while another schedule comes after it."""
    with transaction.atomic():
        held = _held(schedule.pk)
        if held.successors.exists():
            raise NotAllowedNow(
                "other schedules run after this one: change or delete them first",
                schedule=held.name,
            )
        _record(held, by, reason, what="schedule.delete")
        held.delete()


def do_forget_runs(*, before: datetime) -> int:
    """Delete what came before then, of which nothing runs any more; how many. Going by when each
    came, a run goes before the runs that came after it.
    """
    runs = ScheduleRun.objects.filter(at__lt=before)
    return delete_in_batches(runs.exclude(operation__state__in=sorted(OPEN)))


def described(schedule: Schedule) -> dict[str, Any]:
    """What the audit says of it."""
    return {
        "schedule": str(schedule.pk),
        "name": schedule.name,
        "kind": schedule.kind,
        "service": schedule.service,
        "parameters": schedule.parameters,
        "every_s": schedule.every_s,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "after_schedule": str(schedule.after_schedule_id or ""),
        "after_operation": str(schedule.after_operation_id or ""),
        "owner": schedule.owner.get_username() if schedule.owner is not None else "",
        "is_paused": schedule.is_paused,
    }


def _store(
    schedule: Schedule, checked: CheckedWish, owner: User, by: Requester, reason: str, *, what: str
) -> Schedule:
    now = timezone.now()
    try:
        with transaction.atomic():
            hold_registered(schedule.table)
            check_no_circle(schedule.pk, checked.columns["after_schedule"])
            before = _before(schedule)
            for name, column in checked.columns.items():
                setattr(schedule, name, column)
            schedule.owner = owner
            schedule.begins_at = schedule.changed_at = now
            schedule.next_due_at = (
                None if schedule.is_paused else first_due(checked.trigger, checked.columns, now)
            )
            schedule.save()
            _record(schedule, by, reason, what=what, before=before)
    except IntegrityError as error:
        raise InvalidRequest(
            "the table already has a schedule with this name", name=checked.columns["name"]
        ) from error
    return schedule


def _before(schedule: Schedule) -> Mapping[str, Any]:
    stored = Schedule.objects.select_related("owner").filter(pk=schedule.pk).first()
    return {} if stored is None else {"before": described(stored)}


def _held(schedule_id: UUID) -> Schedule:
    """Raises Http404 for one that was deleted meanwhile."""
    rows = Schedule.objects.select_related("table", "owner").select_for_update(of=("self",))
    schedule = rows.filter(pk=schedule_id).first()
    if schedule is None:
        raise Http404(f"schedule {schedule_id} not found")
    return schedule


def _record(
    schedule: Schedule,
    by: Requester,
    reason: str,
    *,
    what: str,
    before: Mapping[str, Any] | None = None,
) -> None:
    do_record(
        who=by.name,
        what=what,
        subject=schedule.table.slug,
        result="done",
        reason=reason,
        details={**described(schedule), **(before or {})},
    )
    publish_change(schedule.table.slug, "operations")
