"""Pause and resume the automatic writers of a table, such as for a rollback.

A pause is an audit row that lists what was stopped; the resume that follows it is another one.
Nothing else is stored. Both can be repeated after a failure: each step checks its own state, and a
repeated pause lists what the earlier one listed as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.auth.models import User

from controlplane.audit.actions import do_record
from controlplane.audit.models import AuditEvent
from controlplane.errors import NotAllowedNow
from controlplane.operations.ask import Requester
from controlplane.operations.cancels import do_request_cancel
from controlplane.operations.kinds.sink import do_relaunch_sink
from controlplane.operations.kinds.write import resume_write
from controlplane.operations.models import Operation, Schedule, ServiceSetting
from controlplane.operations.scheduled.actions import do_pause_schedule
from controlplane.operations.schedules import do_update_service_setting
from controlplane.operations.sink_stops import SINK, do_stop_sink, open_operation
from controlplane.operations.states import FINAL, OPEN, OperationState
from controlplane.tables.models import Table

PAUSED: Final = "writers.pause"
RESUMED: Final = "writers.resume"
_STOPPABLE: Final = OPEN - {
    OperationState.AWAITING,
    OperationState.CANCELLING,
    OperationState.STOPPING,
}
_ROLLBACKS: Final = ("rollback", "rollback_several")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWriters:
    """The names of what writes a table until a user stops it."""

    streams: list[str]
    sinks: list[str]
    schedules: list[str]
    services: list[str]

    @property
    def names(self) -> list[str]:
        return [*self.streams, *self.sinks, *self.schedules, *self.services]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPause:
    """A pause that has not ended yet."""

    by: str
    at: datetime
    names: list[str]
    still_ending: list[str]
    """Writers that have not stopped yet."""


def find_running_writers(table: Table) -> RunningWriters:
    """Return what `do_pause_writers` would pause. Four queries."""
    return _name_writers(
        _stream_operations(table), _sink_operations(table), _schedules(table), _services(table)
    )


def find_pause(table: Table) -> WriterPause | None:
    """Return the pause that holds, or None. Two queries."""
    event = _pause_event(table)
    return None if event is None else _describe_pause(event)


def _describe_pause(event: AuditEvent) -> WriterPause:
    return WriterPause(
        by=event.who,
        at=event.at,
        names=list(event.details["names"]),
        still_ending=[_name(operation) for operation in _load_paused_operations(event, OPEN)],
    )


def do_pause_writers(table: Table, *, by: User, reason: str = "") -> RunningWriters:
    """Pause schedules and services, cancel streams, and stop sinks after their transaction.

    Raises NotAllowedNow if nothing writes the table.
    """
    streams, sinks = _stream_operations(table), _sink_operations(table)
    schedules, services = _schedules(table), _services(table)
    running = _name_writers(streams, sinks, schedules, services)
    earlier = _pause_event(table)
    if not running.names:
        problem = (
            "no stream, sink or schedule writes this table"
            if earlier is None
            else "the writers of this table are paused already"
        )
        raise NotAllowedNow(problem, table=table.slug)
    details = {
        "names": running.names,
        "operations": [str(operation.pk) for operation in (*streams, *sinks)],
        "schedules": [str(schedule.pk) for schedule in schedules],
        "services": [setting.service for setting in services],
    }
    if earlier is not None:  # It failed midway, or something was started since then.
        details = {
            key: list(dict.fromkeys([*earlier.details[key], *stopped]))
            for key, stopped in details.items()
        }
    do_record(
        who=by.get_username(),
        what=PAUSED,
        subject=table.slug,
        result="requested",
        reason=reason,
        details={"table": table.pk, **details},
    )
    for schedule in schedules:  # First, so that nothing new begins.
        do_pause_schedule(schedule, is_paused=True, by=Requester.person(by), reason=reason)
    for setting in services:
        _switch(setting, by=by, enabled=False)
    for operation in (*streams, *sinks):
        _stop(operation, by, reason)
    return running


def do_resume_writers(table: Table, *, by: User, reason: str = "") -> None:
    """Start again what the pause stopped. Streams and sinks continue from their last commit.

    Raises NotAllowedNow if nothing is paused, while a writer has not stopped yet, and while a
    rollback of the table is open.
    """
    event = _pause_event(table)
    if event is None:
        raise NotAllowedNow("the writers of this table are not paused", table=table.slug)
    pause = _describe_pause(event)
    if pause.still_ending:
        raise NotAllowedNow(
            "writers have not stopped yet: retry in some seconds", writers=pause.still_ending
        )
    open_operations = Operation.objects.filter(table=table, state__in=sorted(OPEN))
    if any((row.service or row.kind) in _ROLLBACKS for row in open_operations):
        raise NotAllowedNow(
            "a rollback of this table has not ended yet: wait until it ends", table=table.slug
        )
    for operation in _load_paused_operations(event, FINAL):
        _start(operation, by, reason)
    for setting in ServiceSetting.objects.filter(
        table=table, service__in=event.details["services"], is_enabled=False
    ):
        _switch(setting, by=by, enabled=True)
    for schedule in Schedule.objects.filter(table=table, pk__in=event.details["schedules"]):
        do_pause_schedule(schedule, is_paused=False, by=Requester.person(by), reason=reason)
    do_record(
        who=by.get_username(),
        what=RESUMED,
        subject=table.slug,
        result="done",
        reason=reason,
        details={"table": table.pk, "names": pause.names},
    )


def _name_writers(
    streams: list[Operation],
    sinks: list[Operation],
    schedules: list[Schedule],
    services: list[ServiceSetting],
) -> RunningWriters:
    return RunningWriters(
        streams=[_stream(operation) for operation in streams],
        sinks=[operation.sink_id for operation in sinks],
        schedules=[schedule.name for schedule in schedules],
        services=[setting.service for setting in services],
    )


def _pause_event(table: Table) -> AuditEvent | None:
    """Return the newest pause, unless a resume came after it. By the table's key: slugs change."""
    events = AuditEvent.objects.filter(what__in=(PAUSED, RESUMED), details__table=table.pk)
    newest = events.order_by("-id").first()
    return newest if newest is not None and newest.what == PAUSED else None


def _stream_operations(table: Table) -> list[Operation]:
    running = Operation.objects.filter(table=table, kind="write", state__in=sorted(_STOPPABLE))
    return [operation for operation in running.order_by("requested_at") if _stream(operation)]


def _sink_operations(table: Table) -> list[Operation]:
    running = Operation.objects.filter(table=table, kind=SINK, state__in=sorted(_STOPPABLE))
    return list(running.order_by("requested_at"))


def _schedules(table: Table) -> list[Schedule]:
    active = Schedule.objects.filter(table=table, is_paused=False)
    return list(active.select_related("table", "owner").order_by("name"))


def _services(table: Table) -> list[ServiceSetting]:
    return list(ServiceSetting.objects.filter(table=table, is_enabled=True).order_by("service"))


def _load_paused_operations(
    event: AuditEvent, states: frozenset[OperationState]
) -> list[Operation]:
    paused = Operation.objects.filter(pk__in=event.details["operations"], state__in=sorted(states))
    return list(paused.select_related("table", "requested_by").order_by("requested_at"))


def _stream(operation: Operation) -> str:
    return str(operation.parameters.get("job", {}).get("stream") or "")


def _name(operation: Operation) -> str:
    return operation.sink_id or _stream(operation)


def _switch(setting: ServiceSetting, *, by: User, enabled: bool) -> None:
    do_update_service_setting(
        table=setting.table,
        service=setting.service,
        enabled=enabled,
        every_s=setting.every_s,
        trigger_commits=setting.trigger_commits,
        parameters=setting.parameters,
        by=by,
    )


def _stop(operation: Operation, by: User, reason: str) -> None:
    words = reason or "paused for a rollback"
    try:
        if operation.kind == SINK:
            do_stop_sink(operation.table, operation.sink_id, by=by.get_username(), reason=words)
        else:
            do_request_cancel(operation=operation, by=by, reason=words)
    except NotAllowedNow:
        operation.refresh_from_db()
        if operation.state in _STOPPABLE:
            raise


def _start(operation: Operation, by: User, reason: str) -> None:
    """Start it again, unless it ended without the pause or was started since then."""
    table, words = operation.table, reason or "resumed after a pause"
    if operation.kind == SINK:
        if open_operation(table, operation.sink_id) is None:
            do_relaunch_sink(table, operation.sink_id, by=by, reason=words)
    elif operation.state == OperationState.CANCELLED.value and _stream(operation) not in map(
        _stream, _stream_operations(table)
    ):
        resume_write(operation, by=by, reason=words)
