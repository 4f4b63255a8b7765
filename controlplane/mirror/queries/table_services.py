"""Savepoints, pending plans and past runs of table services, as the last sync saw them. Never
touches storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime, parse_instant

_PLANNED = ("compaction", "logcompaction", "clustering", "clean", "rollback", "restore")
_NAMES = {"COMPACT": "compaction", "LOG_COMPACT": "logcompaction", "CLUSTER": "clustering"}
_SERVICES = Q(action__in=["savepoint", *_PLANNED]) | Q(operation_type__in=sorted(_NAMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRow:
    instant: InstantTime
    """The instant that is kept."""
    completed_at: InstantTime | None
    by: str
    comment: str
    files: int | None
    partitions: int | None
    commits_after: int
    """Completed writes that a restore to it would undo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPlanRow:
    instant: InstantTime
    requested_ms: int
    action: str
    state: str
    file_groups: int | None
    files: int | None
    bytes: int | None
    strategy: str
    writer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRunRow:
    """A service that completed on the timeline, whoever ran it."""

    instant: InstantTime
    completed_at: InstantTime | None
    service: str
    took_ms: int | None
    writer: str
    files: int | None
    bytes: int | None
    rows: int | None
    is_archived: bool


def savepoints(table: Table) -> list[SavepointRow]:
    """Newest first. Two queries."""
    records = list(
        InstantRecord.objects.filter(
            table=table, action="savepoint", state="completed", is_archived=False
        ).order_by("-requested_at")
    )
    writes = InstantRecord.objects.filter(table=table, action__in=DATA_ACTIONS, state="completed")
    after = writes.aggregate(
        **{
            f"after_{number}": Count("pk", filter=Q(requested_at__gt=one.requested_at))
            for number, one in enumerate(records)
        }
    )
    return [
        SavepointRow(
            instant=record.requested_at,
            completed_at=record.completed_at,
            by=str(record.metadata.get("by", "")),
            comment=str(record.metadata.get("comment", "")),
            files=record.files,
            partitions=record.partitions,
            commits_after=after[f"after_{number}"],
        )
        for number, record in enumerate(records)
    ]


def plans_query(table: Table) -> QuerySet[InstantRecord]:
    """Return the query of plans that are durable on the timeline and not carried out, the oldest
    first.
    """
    records = InstantRecord.objects.filter(table=table, action__in=_PLANNED)
    return records.exclude(state="completed").order_by("requested_at")


def pending_plans(
    table: Table, plans: QuerySet[InstantRecord] | None = None
) -> list[PendingPlanRow]:
    """List pending plans. One query, or none where `plans`, which `plans_query` made, was read
    before.
    """
    return [_pending(record) for record in (plans_query(table) if plans is None else plans)]


def service_history(table: Table, limit: int = 50) -> list[ServiceRunRow]:
    """What services completed, newest first. One query."""
    records = InstantRecord.objects.filter(_SERVICES, table=table, state="completed")
    return [_run(record) for record in records.order_by("-requested_at")[:limit]]


def _pending(record: InstantRecord) -> PendingPlanRow:
    plan: Mapping[str, Any] = record.metadata.get("plan", {})
    return PendingPlanRow(
        instant=record.requested_at,
        requested_ms=parse_instant(record.requested_at),
        action=record.action,
        state=record.state,
        file_groups=plan.get("file_groups"),
        files=plan.get("files"),
        bytes=plan.get("bytes"),
        strategy=str(plan.get("strategy", "")),
        writer=record.writer_name,
    )


def _run(record: InstantRecord) -> ServiceRunRow:
    took_ms = None
    if record.completed_at is not None and record.action != "savepoint":
        took_ms = parse_instant(record.completed_at) - parse_instant(record.requested_at)
    return ServiceRunRow(
        instant=record.requested_at,
        completed_at=record.completed_at,
        service=_NAMES.get(record.operation_type, record.action),
        took_ms=took_ms,
        writer=record.writer_name,
        files=record.files,
        bytes=record.bytes,
        rows=record.rows,
        is_archived=record.is_archived,
    )
