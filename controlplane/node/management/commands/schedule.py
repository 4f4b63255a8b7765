"""`manage.py schedule`: make, list, pause, resume and delete schedules of operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from controlplane.audit.shell import get_acting_user
from controlplane.errors import ControlPlaneError
from controlplane.node.shell.arguments import add_fields
from controlplane.node.shell.identity import check_role, requester
from controlplane.operations.descriptions.field import REASON
from controlplane.operations.descriptions.schedules import CREATE_SCHEDULE
from controlplane.operations.models import Schedule
from controlplane.operations.scheduled.actions import (
    do_delete_schedule,
    do_make_schedule,
    do_pause_schedule,
)
from controlplane.operations.scheduled.due_times import checked_cron, next_due
from controlplane.operations.scheduled.queries import ScheduleRow, all_schedules
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.tables.access import Permission
from controlplane.tables.models import Table
from workers.installation import format_command

_TRIGGERS = ("every_s", "cron", "after_schedule", "after_operation")


class Command(BaseCommand):
    help = "Manage schedules: `schedule add trips nightly --as ada --cron '30 2 * * *' ...`."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        shown = actions.add_parser("list", help="list schedules and their next runs")
        shown.add_argument("--table", default="", help="only the table with this slug")
        due = actions.add_parser("due", help="print the next five times of a cron expression")
        due.add_argument("cron", help="five fields: minute, hour, day of the month, month, weekday")
        due.add_argument("--time-zone", default="UTC", help="the time zone of the expression (UTC)")
        add = actions.add_parser("add", help="create a schedule")
        add.add_argument("table", help="the slug of the table")
        add.add_argument(
            "--as", dest="owner", required=True, help="the user whose roles the schedule has"
        )
        when = add.add_mutually_exclusive_group(required=True)
        for field in CREATE_SCHEDULE.fields:
            add_fields(when if field.name in _TRIGGERS else add, [field])
        for name in ("pause", "resume", "delete"):
            command = actions.add_parser(name, help=f"{name} a schedule")
            command.add_argument("id", type=UUID, help="the id of the schedule, from `list`")
            add_fields(command, [REASON])

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._carry_out(options)
        except (ControlPlaneError, PermissionDenied) as error:
            raise CommandError(str(error)) from error

    def _carry_out(self, options: Mapping[str, Any]) -> None:
        by = requester()
        match options["action"]:
            case "list":
                for row in all_schedules(options["table"]):
                    self.stdout.write(_line(row))
            case "due":
                cron = checked_cron(options["cron"], options["time_zone"])
                self.stdout.write(f"{cron.words}, {cron.time_zone}")
                for due_at in next_due(cron, timezone.now()):
                    self.stdout.write(due_at.isoformat())
            case "add":
                table, owner = _table(options["table"]), _owner(options["owner"])
                check_role(table, Permission.OPERATE)
                schedule = do_make_schedule(
                    table,
                    _wish(options),
                    owner=owner,
                    by=by,
                    reason=options["reason"],
                )
                self.stdout.write(f"{schedule.pk}\t{schedule.name}")
            case "delete":
                do_delete_schedule(_to_change(options["id"]), by=by, reason=options["reason"])
            case action:
                is_paused = action == "pause"
                schedule = _to_change(options["id"])
                do_pause_schedule(schedule, is_paused=is_paused, by=by, reason=options["reason"])


def _wish(options: Mapping[str, Any]) -> ScheduleWish:
    own = ("name", "service", "parameters", "every_s", "cron", "time_zone", "after_operation")
    return ScheduleWish(
        kind="service" if options["service"] else "write",
        after_schedule=options["after"],
        **{name: options[name] for name in own},
    )


def _table(slug: str) -> Table:
    table = Table.objects.filter(slug=slug).first()
    if table is None:
        raise CommandError(
            f"table {slug} not found; `{format_command('table list')}` lists all tables"
        )
    return table


def _owner(name: str) -> User:
    """Raises PermissionDenied where a named user would borrow the rights of another."""
    owner = User.objects.filter(username=name).first()
    if owner is None:
        raise CommandError(
            f"user {name} not found; `{format_command('user list')}` lists all users"
        )
    if get_acting_user() not in (None, owner):
        raise PermissionDenied("the owner of a schedule must be you: pass your own name to --as")
    return owner


def _to_change(schedule_id: UUID) -> Schedule:
    schedule = _schedule(schedule_id)
    check_role(schedule.table, Permission.OPERATE)
    return schedule


def _schedule(schedule_id: UUID) -> Schedule:
    schedule = Schedule.objects.select_related("table", "owner").filter(pk=schedule_id).first()
    if schedule is None:
        raise CommandError(
            f"schedule {schedule_id} not found; `{format_command('schedule list')}` lists "
            "all schedules"
        )
    return schedule


def _line(row: ScheduleRow) -> str:
    """Parted by tabs."""
    when = row.cron or (f"every {row.every_s} s" if row.every_s else "after another")
    due = "paused" if row.is_paused else ", ".join(at.isoformat() for at in row.next_due)
    last = row.last_run.outcome if row.last_run is not None else "no runs yet"
    what = row.service or row.kind
    return "\t".join([str(row.id), row.table_slug, row.name, what, when, row.owner, due, last])
