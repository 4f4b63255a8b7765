"""What hangs on a registered table, and what runs on it: shown before it is unregistered, and why
nothing about it can be changed now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import (
    CharField,
    Count,
    ForeignObjectRel,
    QuerySet,
    Sum,
    Value,
)
from django.db.models.deletion import CASCADE
from django.utils import timezone

from controlplane.audit.models import AuditEvent
from controlplane.errors import NotAllowedNow
from controlplane.mirror.models import FileGroupRecord, HeartbeatRecord, LeftOutFiles
from controlplane.mirror.queries.sinks import OVER, SILENT_AFTER
from controlplane.mirror.sink_models import SinkRecord
from controlplane.operations.models import Operation, Schedule, ServiceSetting
from controlplane.operations.states import OPEN
from controlplane.tables.models import FormerSlug, Table

_WORDS = {
    "instantrecord": "instants",
    "undonerecord": "instants that were rolled back",
    "schemarecord": "schemas",
    "filegrouprecord": "file groups",
    "heartbeatrecord": "heartbeats",
    "markercount": "counts of markers",
    "markerdirectory": "marker directories",
    "lockrecord": "looks at the lock",
    "syncmark": "marks of the sync",
    "historycount": "counts of the history",
    "leftoutfiles": "sums of file groups",
    "streamstatus": "measured streams",
    "joinmeasure": "measured joins",
    "joinpoint": "earlier measures of the join",
    "sinkrecord": "sinks",
    "conflict": "conflicts",
    "operation": "operations that have ended",
    "servicesetting": "settings of services",
    "schedule": "schedules",
    "schedulerun": "turns of schedules",
    "formerslug": "former slugs",
}
"""By the name of the model; of others their own plural."""
_OPEN_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingRows:
    """Rows of one kind in the control plane's database."""

    what: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOperation:
    id: UUID
    heading: str
    """Its kind, of a service its name, of a sink its id."""
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSchedule:
    """A schedule that is not paused."""

    id: UUID
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChangePlan:
    """What unregistering would do; `blockers` hold back another location as well."""

    slug: str
    name: str
    namespace: str
    location: str
    goes: list[HangingRows]
    """Deleted with the table, the most numerous first."""
    rows_going: int
    audit_rows: int
    """They stay, under the slugs that the table had when they were written."""
    file_groups: int
    """They stay, with all other files of the table."""
    bytes: int
    """Of those file groups, as the mirror has them."""
    former_slugs: list[str]
    open_operations: list[OpenOperation]
    schedules: list[str]
    """Names of `services`, then of `active_schedules`."""
    services: list[str]
    """Services that the node runs by their settings."""
    active_schedules: list[ActiveSchedule]
    sinks: list[str]
    """Ids of sinks that run without an operation of this node."""
    blockers: list[str]
    """Why nothing can be changed now; empty when it can."""
    warnings: list[str]


def table_change_plan(table: Table) -> TableChangePlan:
    """Counts what hangs on the table, in a handful of queries. Reads no storage."""
    in_use = _find_use(table)
    goes = _hanging_rows(table)
    former = list(FormerSlug.objects.filter(table=table).values_list("slug", flat=True))
    held = FileGroupRecord.objects.filter(table=table).aggregate(n=Count("pk"), size=Sum("bytes"))
    others = LeftOutFiles.objects.filter(table=table).aggregate(
        n=Sum("file_groups", default=0), size=Sum("bytes", default=0)
    )
    return TableChangePlan(
        slug=table.slug,
        name=table.name,
        namespace=table.namespace,
        location=table.location,
        goes=goes,
        rows_going=sum(hanging.rows for hanging in goes),
        audit_rows=AuditEvent.objects.filter(object__in=[table.slug, *former]).count(),
        file_groups=held["n"] + others["n"],
        bytes=(held["size"] or 0) + others["size"],
        former_slugs=former,
        open_operations=in_use.open_operations,
        schedules=[*in_use.services, *(schedule.name for schedule in in_use.schedules)],
        services=in_use.services,
        active_schedules=in_use.schedules,
        sinks=in_use.sinks,
        blockers=in_use.blockers,
        warnings=_warnings(table),
    )


def refuse_while_busy(table: Table) -> None:
    """Refuse, as NotAllowedNow, a table that is in use; it names the operations by their addresses
    in the API.
    """
    in_use = _find_use(table)
    if in_use.blockers:
        raise NotAllowedNow(
            "the table is in use by this node",
            blockers=in_use.blockers,
            operations=[f"/api/v1/operations/{running.id}/" for running in in_use.open_operations],
        )


@dataclass(frozen=True, slots=True)
class _Use:
    """What of this node works on a table now, or may begin at any moment."""

    open_operations: list[OpenOperation]
    services: list[str]
    schedules: list[ActiveSchedule]
    sinks: list[str]

    @property
    def blockers(self) -> list[str]:
        return [
            *(
                f"{running.heading} is {running.state} (operation {running.id}): let it end or "
                "cancel it"
                for running in self.open_operations
            ),
            *(f"the schedule of {service} is on: switch it off" for service in self.services),
            *(f"the schedule {schedule.name} is on: pause it" for schedule in self.schedules),
            *(f"the sink {sink} runs: stop it" for sink in self.sinks),
        ]


def _find_use(table: Table) -> _Use:
    return _Use(_open(table), _services(table), _schedules(table), _own_sinks(table))


def _open(table: Table) -> list[OpenOperation]:
    running = Operation.objects.filter(table=table, state__in=sorted(OPEN))
    rows = running.order_by("requested_at").values_list("pk", "kind", "service", "sink_id", "state")
    return [
        OpenOperation(id=key, heading=_heading(kind, service, sink), state=state)
        for key, kind, service, sink, state in rows[:_OPEN_SHOWN]
    ]


def _heading(kind: str, service: str, sink: str) -> str:
    return f"the {service.replace('_', ' ') or kind}" + (f" of the sink {sink}" if sink else "")


def _services(table: Table) -> list[str]:
    switched_on = ServiceSetting.objects.filter(table=table, is_enabled=True)
    return list(switched_on.order_by("service").values_list("service", flat=True))


def _schedules(table: Table) -> list[ActiveSchedule]:
    active = Schedule.objects.filter(table=table, is_paused=False).order_by("name")
    return [ActiveSchedule(id=key, name=name) for key, name in active.values_list("pk", "name")]


def _own_sinks(table: Table) -> list[str]:
    """Those that speak, and of which an operation does not speak already."""
    speaking = SinkRecord.objects.filter(
        table=table, updated_at__gt=timezone.now() - SILENT_AFTER
    ).exclude(state__in=sorted(OVER))
    launched = Operation.objects.filter(table=table, state__in=sorted(OPEN)).exclude(sink_id="")
    others = speaking.exclude(sink_id__in=launched.values("sink_id"))
    return list(others.order_by("sink_id").values_list("sink_id", flat=True))


def _warnings(table: Table) -> list[str]:
    now = timezone.now()
    writing = [
        beat.writer_name or "a writer"
        for beat in HeartbeatRecord.objects.filter(table=table, is_gone=False)
        if beat.liveness(age_s=(now - beat.beat_at).total_seconds()) == "alive"
    ]
    if not writing:
        return []
    names = ", ".join(sorted(set(writing))[:5])
    return [f"{names} writes into the table now; nobody will see it here, nor undo it if it dies"]


def _hanging_rows(table: Table) -> list[HangingRows]:
    """Of every model that goes with a table, whichever app it is of. One query."""
    counts = [
        _counted(relation, table)
        for relation in Table._meta.related_objects
        if relation.on_delete is CASCADE
    ]
    listed = counts[0].union(*counts[1:], all=True)
    rows = [HangingRows(what=what, rows=count) for what, count in listed if count]
    return sorted(rows, key=lambda hanging: (-hanging.rows, hanging.what))


def _counted(relation: ForeignObjectRel, table: Table) -> QuerySet[Any, tuple[str, int]]:
    model: Any = relation.related_model
    words = _WORDS.get(model._meta.model_name or "", str(model._meta.verbose_name_plural))
    rows = model._base_manager.filter(**{relation.field.name: table}).order_by()
    counted = rows.values(what=Value(words, CharField())).annotate(count=Count("pk"))
    listed: QuerySet[Any, tuple[str, int]] = counted.values_list("what", "count")
    return listed
