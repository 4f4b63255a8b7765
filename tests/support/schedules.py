"""Schedules for tests."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from controlplane.operations.ask import Requester
from controlplane.operations.models import Schedule
from controlplane.operations.scheduled.actions import do_make_schedule
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.tables.models import Table


def nightly(table: Table, owner: User, path: str = "/data/weather.csv") -> Schedule:
    """A write of a file at half past two in Oslo."""
    when = {"cron": "30 2 * * *", "time_zone": "Europe/Oslo"}
    return _made(table, owner, path, name="nightly", **when)


def followed(table: Table, owner: User) -> Schedule:
    """The same, with another that comes after it, so that nobody may delete it."""
    schedule = nightly(table, owner)
    _made(table, owner, name="afterwards", after_schedule=schedule.pk)
    return schedule


def _made(table: Table, owner: User, path: str = "/data/weather.csv", **when: Any) -> Schedule:
    source = {"kind": "csv", "path": path}
    wish = ScheduleWish(kind="write", parameters={"source": source}, **when)
    return do_make_schedule(table, wish, owner=owner, by=Requester.person(owner))
