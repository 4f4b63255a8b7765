"""What runs now over all tables, and what broke and needs a person: operations and writers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from controlplane.mirror.models import HeartbeatRecord, liveness_at
from controlplane.operations.filters import BROKEN, unanswered
from controlplane.operations.models import Operation
from controlplane.operations.queries import OperationRow, operation_rows
from controlplane.operations.states import OPEN, OperationState
from controlplane.tables.access import visible_tables

READ_MAX: Final = 500
"""Of operations; where there are more, the oldest are left out."""
BROKEN_FOR: Final = timedelta(days=1)
"""Older failures are in the list of operations alone."""

NOT_SHOWN: Final = ("groups", "join_needs", "properties", "property_changes", "overtaken")
"""JSON of a table that nobody reads here."""
_OF_BEATS: Final = (
    "table", "table__slug", "table__name", "table__namespace", "instant", "beat_at", "interval_ms",
    "tolerable_misses", "writer_name", "operation", "operation_ref",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterLine:
    """A writer whose heartbeat is alive or suspect."""

    table: int
    """Its key, as the next are its table's."""
    slug: str
    table_name: str
    namespace: str
    instant: str
    writer: str
    operation: str
    """The kind of its write."""
    operation_ref: str
    beat_at: datetime
    expires_at: datetime
    """When recovery may take the instant over, unless another heartbeat comes."""
    is_suspect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    open: list[OperationRow]
    """Newest first, those that await approval among them."""
    broken: list[OperationRow]
    """Of the last day, that nobody asked for again."""
    is_cut: bool
    """There are more than were read."""
    keys: dict[str, int]
    """Keys of their tables, by slug."""


def work_query(user: User, now: datetime) -> QuerySet[Operation]:
    """Return the query of open operations and of failures of the last day that were not run again.
    The newest come first.
    """
    lately = Q(requested_at__gte=now - BROKEN_FOR) | Q(changed_at__gte=now - BROKEN_FOR)
    shown = Q(state__in=sorted(OPEN)) | (unanswered() & lately)
    return (
        Operation.objects.filter(shown, table__in=visible_tables(user).order_by())
        .select_related("table", "requested_by")
        .defer("plan", "stages", "settled", *(f"table__{name}" for name in NOT_SHOWN))
        .order_by("-requested_at", "-pk")[: READ_MAX + 1]
    )


def work_of(user: User, operations: Sequence[Operation]) -> Work:
    """Sort what `work_query` found. Two queries at most."""
    rows = operation_rows(operations[:READ_MAX], user)
    return Work(
        open=[row for row in rows if OperationState(row.state) in OPEN - BROKEN],
        broken=[row for row in rows if OperationState(row.state) in BROKEN],
        is_cut=len(operations) > READ_MAX,
        keys={operation.table.slug: operation.table_id for operation in operations},
    )


def beats_query(user: User) -> QuerySet[HeartbeatRecord, Any]:
    """Return the query of heartbeats that are in storage, the oldest first."""
    beats = HeartbeatRecord.objects.filter(is_gone=False, table__in=visible_tables(user).order_by())
    return beats.order_by("beat_at").values_list(*_OF_BEATS)


def writers_of(beats: Iterable[tuple[Any, ...]], now: datetime) -> list[WriterLine]:
    """Return the active writers among what `beats_query` found."""
    return list(_lines(beats, now))


def _lines(beats: Iterable[tuple[Any, ...]], now: datetime) -> Iterable[WriterLine]:
    for table, slug, table_name, namespace, instant, beat_at, interval_ms, misses, *names in beats:
        tolerance_s = interval_ms * misses / 1000
        liveness = liveness_at((now - beat_at).total_seconds(), tolerance_s)
        if liveness != "expired":
            writer, operation, operation_ref = names
            yield WriterLine(
                table=table,
                slug=slug,
                table_name=table_name,
                namespace=namespace,
                instant=instant,
                writer=writer,
                operation=operation,
                operation_ref=operation_ref,
                beat_at=beat_at,
                expires_at=beat_at + timedelta(seconds=tolerance_s),
                is_suspect=liveness == "suspect",
            )
