"""What somebody wants of a schedule, and its check: everything is refused before it is stored that
would be refused at each run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from controlplane.errors import InvalidRequest
from controlplane.operations.ask import Ask, Request, Requester
from controlplane.operations.kinds.kind import kinds
from controlplane.operations.models import Operation, Schedule
from controlplane.operations.request_places import check_named_places
from controlplane.operations.scheduled.due_times import (
    Cron,
    DueTimes,
    Interval,
    checked_cron,
    checked_interval,
)
from controlplane.operations.upload_uses import check_no_upload
from controlplane.tables.access import Permission, may, visible_tables
from controlplane.tables.models import Table

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,63}\Z")
Trigger = Schedule.Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWish:
    """What is asked for, and when. Of `every_s`, `cron`, `after_schedule` and `after_operation`
    exactly one is given.
    """

    name: str
    kind: str
    service: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    every_s: int = 0
    cron: str = ""
    time_zone: str = "UTC"
    after_schedule: UUID | None = None
    after_operation: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedWish:
    """The columns of a schedule that may be made."""

    columns: Mapping[str, Any]
    trigger: Trigger


def ask_of(table: Table, kind: str, service: str, parameters: Mapping[str, Any]) -> Ask[Any]:
    """What it asks for each time. Raises InvalidRequest for what cannot be scheduled."""
    known = kinds().get(kind)
    if known is None or known.scheduled is None:
        able = sorted(name for name, each in kinds().items() if each.scheduled is not None)
        raise InvalidRequest("this cannot be scheduled", kind=kind[:32], known=able)
    return known.scheduled(table, service, parameters)


def times_of(schedule: Schedule) -> DueTimes | None:
    """None for what comes after something else."""
    match Trigger(schedule.trigger):
        case Trigger.EVERY:
            return Interval(begins_at=schedule.begins_at, every_s=schedule.every_s)
        case Trigger.CRON:
            return Cron(expression=schedule.cron, time_zone=schedule.time_zone)
        case _:
            return None


def checked_wish(table: Table, wish: ScheduleWish, owner: User) -> CheckedWish:
    """Everything but what other schedules forbid. Plans once, so it reads the table's storage.

    Raises InvalidRequest, PermissionDenied where the owner may not ask for it, and what its plan
    raises.
    """
    if not NAME.match(wish.name):
        raise InvalidRequest(
            "the name of a schedule must have 1 to 64 letters, digits, spaces, _, . and -",
            name=wish.name,
        )
    trigger = _trigger(wish)
    _check_ask(ask_of(table, wish.kind, wish.service, wish.parameters), owner)
    columns = {
        "name": wish.name,
        "kind": wish.kind,
        "service": wish.service,
        "parameters": dict(wish.parameters),
        "trigger": trigger.value,
        "every_s": checked_interval(wish.every_s) if trigger is Trigger.EVERY else 0,
        "cron": "",
        "time_zone": "UTC",
        "after_schedule": None,
        "after_operation": None,
    }
    if trigger is Trigger.CRON:
        cron = checked_cron(wish.cron, wish.time_zone)
        columns |= {"cron": cron.expression, "time_zone": cron.time_zone}
    if wish.after_schedule is not None:
        columns["after_schedule"] = _seen_schedule(wish.after_schedule, owner)
    if wish.after_operation is not None:
        columns["after_operation"] = _seen_operation(wish.after_operation, owner)
    return CheckedWish(columns=columns, trigger=trigger)


def first_due(trigger: Trigger, columns: Mapping[str, Any], now: datetime) -> datetime | None:
    """When a schedule that begins now is due first; None where it has a predecessor."""
    times = times_of(Schedule(trigger=trigger, begins_at=now, **_timed(columns)))
    return None if times is None else next(times.after(now))


def check_no_circle(schedule_id: UUID, predecessor: Schedule | None) -> None:
    """Refuse, as InvalidRequest, a schedule that would in the end wait for itself. Holds every
    schedule until the transaction at hand ends, so that no two changes close a circle together.
    """
    if predecessor is None:
        return
    every = Schedule.objects.select_for_update(of=("self",)).order_by("pk")
    waits_for = dict(every.values_list("pk", "after_schedule_id"))
    reached: UUID | None = predecessor.pk
    while reached is not None:
        if reached == schedule_id:
            raise InvalidRequest(
                "these schedules would wait for each other", after=predecessor.name
            )
        reached = waits_for.get(reached)


def _timed(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: columns[name] for name in ("every_s", "cron", "time_zone")}


def _trigger(wish: ScheduleWish) -> Trigger:
    given = [
        name
        for name in ("every_s", "cron", "after_schedule", "after_operation")
        if getattr(wish, name)
    ]
    if len(given) != 1:
        raise InvalidRequest(
            "a schedule must have an interval, a cron expression or one predecessor", given=given
        )
    return {"every_s": Trigger.EVERY, "cron": Trigger.CRON}.get(given[0], Trigger.AFTER)


def _check_ask(ask: Ask[Any], owner: User) -> None:
    permission = ask.kind.permission(ask)
    if not may(owner, permission, ask.table):
        raise PermissionDenied(f"this requires the {permission.role} role")
    check_named_places(owner, ask.body)
    check_no_upload(ask.body)
    ask.wanted(Request(by=Requester.person(owner)), ask.plan())


def _seen_schedule(schedule_id: UUID, owner: User) -> Schedule:
    seen = Schedule.objects.filter(table__in=visible_tables(owner, Permission.VIEW))
    predecessor = seen.filter(pk=schedule_id).first()
    if predecessor is None:
        raise InvalidRequest("schedule not found", after_schedule=str(schedule_id))
    return predecessor


def _seen_operation(operation_id: UUID, owner: User) -> Operation:
    seen = Operation.objects.filter(table__in=visible_tables(owner, Permission.VIEW))
    predecessor = seen.filter(pk=operation_id).first()
    if predecessor is None:
        raise InvalidRequest("operation not found", after_operation=str(operation_id))
    return predecessor
