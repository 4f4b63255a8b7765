"""Operations and the marker server, as plain rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import Case, F, QuerySet, When
from django.http import Http404
from django.utils import timezone

from controlplane.mirror.models import ServerSample
from controlplane.operations.attempts import AttemptRow, attempt_rows
from controlplane.operations.checks import Check
from controlplane.operations.filters import ANY, OperationFilter, filtered
from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.models import MarkerServer, Operation
from controlplane.operations.moves import REQUESTED_IN_SHELL
from controlplane.operations.query_sources import shown_whole, without_statement
from controlplane.operations.queueing import IS_SHELL
from controlplane.operations.spark_stages import StageRow, left_ms, spark_ui_url, stage_rows
from controlplane.operations.states import FINAL, OPEN, OperationState
from controlplane.operations.upload_uses import with_references
from controlplane.operations.waiting import Wait, waits_of
from controlplane.paging import PAGE_ROWS, Page, chosen_order, in_order, newest_first
from controlplane.read_together import read_together
from controlplane.tables.access import (
    Caller,
    Permission,
    access_table,
    may_see_some,
    visible_tables,
)
from controlplane.tables.masks import without_row_choices
from controlplane.tables.messages import select_message
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict

SAMPLES_SHOWN_FOR = timedelta(minutes=5)
REPEATS_SHOWN = 5
OPEN_SHOWN = 50
_RUNNING = OperationState.RUNNING
_WITHOUT_ETA = frozenset({"write", "sink"})
_WAITING = frozenset({OperationState.AWAITING, OperationState.QUEUED})

SORTED_BY = {
    "requested_at": "requested_at",
    "started_at": "started_at",
    "finished_at": "finished_at",
    "kind": "kind",
    "state": "state",
    "table_slug": "table__slug",
}
"""What operations may be sorted by, and the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    id: UUID
    table_slug: str
    table_name: str
    kind: str
    service: str
    """Of a `service`: its name."""
    state: str
    is_final: bool
    requested_by: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    reason: str
    instant: str
    writer: str
    message: str
    progress_done: int
    progress_total: int
    progress_unit: str
    progress_pct: float | None
    left_s: float | None
    """Until it ends, at the rate of its progress so far. None while that is unknown, and for writes
    and sinks, whose progress is not their work.
    """
    attempts: int
    """How often it was sent again."""
    lasted_s: float | None
    """From its start to its end, or to now; None before it began."""
    waits_for: Wait | None
    """Looked up for lists of all tables, and for one operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDetail:
    row: OperationRow
    heading: str
    """What it is, for people."""
    parameters: Mapping[str, Any]
    plan: Mapping[str, Any]
    plan_hash: str
    pid: int | None
    session_id: str
    again_of: UUID | None
    """The operation that it was asked for after, with the same or changed parameters."""
    repeats: list[UUID]
    """Operations that were asked for after it, the newest first."""
    lost: str
    """The instant of its write that lost a conflict; empty where none is known."""
    attempts: list[AttemptRow]
    """Each time its job was sent, oldest first; none of operations of earlier versions."""
    stages: list[StageRow]
    """Of its Spark jobs, the newest, oldest first."""
    spark_ui_url: str
    """Of the Spark that runs it, where the node knows one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    at: datetime
    up: bool
    queue_depth: int
    batches: int
    requests: int
    markers: int
    batch_sizes: Mapping[str, int]
    """How many batches were of which size, since the server started."""
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTotals:
    """What the marker server did in a period."""

    markers: int
    batches: int
    requests: int
    markers_per_batch: float | None
    requests_per_batch: float | None
    saved: int
    """Files that direct markers would have created, less the batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerServerStatus:
    state: str
    """running, draining or down"""
    port: int | None
    pid: int | None
    started_at: datetime | None
    restarts: int
    interval_ms: int | None
    """How long a batch waits for more names; None without a fixed wait."""
    threads: int
    """Files that the markers of one instant are spread over."""
    latest: SampleRow | None
    samples: list[SampleRow]
    """Of the last five minutes, oldest first."""
    recent: BatchTotals | None
    """Between the first and the last sample; None with one, or after a restart in between."""
    total: BatchTotals | None
    """Since the server started; None before its first sample."""


def operation_detail(operation_id: UUID | str, user: Caller | None) -> OperationDetail | None:
    """One operation; None when there is none. Whoever may not see its table may not see it:
    ask `access_operation` before showing it, or `access_table` and compare. What chose rows by what
    they hold is masked for whoever does not see all of them; None is the shell.
    """
    operation = _operations().filter(pk=operation_id).first()
    if operation is None:
        return None
    return describe_operation(operation, is_whole=operation.pk in shown_whole(user, [operation]))


def describe_operation(operation: Operation, *, is_whole: bool) -> OperationDetail:
    """Return the detail of an operation that was read before. `is_whole`: see `shown_whole`."""
    waits = waits_of([operation], timezone.now())
    return OperationDetail(
        row=replace(operation_row(operation, is_whole=is_whole), waits_for=waits.get(operation.pk)),
        heading=kind_of(operation).heading(operation),
        parameters=_shown_parameters(
            with_references(
                operation.parameters if is_whole else without_row_choices(operation.parameters)
            )
        ),
        plan=operation.plan,
        plan_hash=operation.plan_hash,
        pid=operation.pid,
        session_id=operation.session_id,
        again_of=operation.again_of_id,
        repeats=_repeats(operation),
        lost=_lost(operation),
        attempts=attempt_rows(operation),
        stages=stage_rows(operation, timezone.now()),
        spark_ui_url=spark_ui_url(operation),
    )


def _repeats(operation: Operation) -> list[UUID]:
    """Of what has not ended there is none."""
    if OperationState(operation.state) not in FINAL:
        return []
    repeats = operation.repeats.order_by("-requested_at").values_list("pk", flat=True)
    return list(repeats[:REPEATS_SHOWN])


def _lost(operation: Operation) -> str:
    """By the decision object that names the operation's instant, as the mirror has it."""
    if not operation.instant or operation.state != OperationState.CONFLICTED:
        return ""
    lost = Conflict.objects.filter(table=operation.table_id, loser_instant=operation.instant)
    return operation.instant if lost.exists() else ""


def operation_checks(operation_id: UUID) -> list[Check]:
    """The proof that it did what it said. One query, then storage alone."""
    operation = _operations().get(pk=operation_id)
    return kind_of(operation).checks(operation)


def access_operation(user: Caller, operation_id: UUID, permission: Permission) -> Operation:
    """The operation itself, for whoever may do this to its table.

    Raises what `access_table` raises; Http404 alike for one that there is not and for one of a
    table that `user` may not see.
    """
    operation = _operations().filter(pk=operation_id, table__in=visible_tables(user)).first()
    if operation is None and not may_see_some(user):
        raise PermissionDenied("this requires the viewer role")
    if operation is None:
        raise Http404(f"operation {operation_id} not found")
    access_table(user, operation.table.slug, permission)
    return operation


def operations_page(
    of: Table | QuerySet[Table],
    user: Caller | None,
    *,
    states: Iterable[str] | None = None,
    kinds: Iterable[str] | None = None,
    sort: str | None = None,
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[OperationRow]:
    """Operations of one table, or of several such as `visible_tables` gives, newest first, or as a
    key of `SORTED_BY` says. One query, and those of `shown_whole`.
    """
    wanted = OperationFilter(
        states=None if states is None else frozenset(states),
        kinds=None if kinds is None else frozenset(kinds),
    )
    operations = filtered(_operations(), wanted, user)
    if isinstance(of, Table):
        operations = operations.filter(table=of)
    else:
        operations = operations.filter(table__in=of.order_by())
    page = _page(operations, sort, cursor, limit)
    return Page(operation_rows(page.rows, user), page.next_cursor)


def listed_operations(
    tables: QuerySet[Table],
    user: Caller | None,
    wanted: OperationFilter = ANY,
    *,
    sort: str | None = None,
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[OperationRow]:
    """Operations of these tables, such as `visible_tables` gives, newest first or as a key of
    `SORTED_BY` says, each with what it waits for. Six queries at most, however many there are.
    Raises InvalidRequest for a cursor that is none.
    """
    operations = filtered(_operations(), wanted, user).filter(table__in=tables.order_by())
    page = _page(operations, sort, cursor, limit)
    waits = waits_of(page.rows, timezone.now())
    rows = [replace(row, waits_for=waits.get(row.id)) for row in operation_rows(page.rows, user)]
    return Page(rows, page.next_cursor)


def count_operations(
    tables: QuerySet[Table], user: Caller | None, condition: OperationFilter
) -> int:
    """Return how many operations `listed_operations` has on all its pages. One query."""
    return (
        filtered(Operation.objects.all(), condition, user)
        .filter(table__in=tables.order_by())
        .count()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationBoard:
    """Operations that are open, and a page of those that have ended."""

    open: list[OperationRow]
    """The first `OPEN_SHOWN`: those at work, then those that wait; the newest first."""
    is_open_cut: bool
    ended: Page[OperationRow]


def load_board(
    tables: QuerySet[Table], user: Caller | None, condition: OperationFilter, *, limit: int
) -> OperationBoard:
    """Return the first page of operations that meet the filter. Seven queries at most. The next
    page is `listed_operations` of those that have ended.
    """
    operations = filtered(_operations(), condition, user).filter(table__in=tables.order_by())
    is_waiting = Case(When(state__in=sorted(_WAITING), then=1), default=0)
    unfinished = operations.filter(state__in=sorted(OPEN))
    newest = list(unfinished.order_by(is_waiting, "-requested_at", "-pk")[: OPEN_SHOWN + 1])
    ended = _page(operations.filter(state__in=sorted(FINAL)), None, None, limit)
    waits = waits_of(newest[:OPEN_SHOWN], timezone.now())
    rows = operation_rows([*newest[:OPEN_SHOWN], *ended.rows], user)
    rows = [replace(row, waits_for=waits.get(row.id)) for row in rows]
    count = len(newest[:OPEN_SHOWN])
    return OperationBoard(
        open=rows[:count],
        is_open_cut=len(newest) > OPEN_SHOWN,
        ended=Page(rows[count:], ended.next_cursor),
    )


def _page(
    operations: QuerySet[Operation], sort: str | None, cursor: str | None, limit: int
) -> Page[Operation]:
    order = chosen_order(sort, SORTED_BY)
    if order is None:
        return newest_first(operations, by="requested_at", cursor=cursor, limit=limit)
    return in_order(operations, order, cursor=cursor, limit=limit)


def recent_query(table: Table, limit: int = 20) -> QuerySet[Operation]:
    """Return the query of the newest requests."""
    return _operations().filter(table=table).order_by("-requested_at")[:limit]


def recent_operations(table: Table, user: Caller | None, limit: int = 20) -> list[OperationRow]:
    """The newest requests first."""
    return operation_rows(recent_query(table, limit), user)


def recent_service_operations(table: Table, user: Caller | None, limit: int) -> list[OperationRow]:
    """Return the newest requests for table services, newest first."""
    services = _operations().filter(table=table).exclude(service="").order_by("-requested_at")
    return operation_rows(services[:limit], user)


def server_queries() -> tuple[QuerySet[MarkerServer], QuerySet[ServerSample]]:
    """Build the queries of the marker server and of its last five minutes."""
    servers = MarkerServer.objects.order_by(F("started_at").desc(nulls_last=True))
    since = timezone.now() - SAMPLES_SHOWN_FOR
    return servers[:1], ServerSample.objects.filter(at__gte=since).order_by("at")


def marker_server_status(
    queries: tuple[QuerySet[MarkerServer], QuerySet[ServerSample]] | None = None,
) -> MarkerServerStatus:
    """Return the marker server and its last five minutes. One query, or none where `queries`, which
    `server_queries` made, were read before.
    """
    servers, newest = queries or server_queries()
    read_together(servers, newest)
    server = next(iter(servers), None)
    samples = [
        SampleRow(
            at=sample.at,
            up=sample.up,
            queue_depth=sample.queue_depth,
            batches=sample.batches,
            requests=sample.requests,
            markers=sample.markers,
            batch_sizes=sample.batch_sizes,
            p50_ms=sample.p50_ms,
            p95_ms=sample.p95_ms,
        )
        for sample in newest
    ]
    return MarkerServerStatus(
        state=server.state if server else MarkerServer.State.DOWN.value,
        port=server.port if server else None,
        pid=server.pid if server else None,
        started_at=server.started_at if server else None,
        restarts=server.restarts if server else 0,
        interval_ms=settings.SLUICE_MARKER_INTERVAL_MS,
        threads=settings.SLUICE_MARKER_THREADS,
        latest=samples[-1] if samples else None,
        samples=samples,
        recent=_recent(samples),
        total=_totals(samples[-1]) if samples and samples[-1].up else None,
    )


def _recent(samples: Iterable[SampleRow]) -> BatchTotals | None:
    answered = [sample for sample in samples if sample.up]
    if len(answered) < 2:
        return None
    first, last = answered[0], answered[-1]
    if last.batches < first.batches or last.markers < first.markers:
        return None
    return _totals(last, first)


def _totals(last: SampleRow, first: SampleRow | None = None) -> BatchTotals:
    markers = last.markers - (first.markers if first else 0)
    batches = last.batches - (first.batches if first else 0)
    requests = max(0, last.requests - (first.requests if first else 0))
    return BatchTotals(
        markers=markers,
        batches=batches,
        requests=requests,
        markers_per_batch=round(markers / batches, 2) if batches else None,
        requests_per_batch=round(requests / batches, 2) if batches else None,
        saved=max(0, markers - batches),
    )


def operation_rows(operations: Iterable[Operation], user: Caller | None) -> list[OperationRow]:
    """Operations as `user` sees them; None is the owner of the node's shell."""
    listed = list(operations)
    whole = shown_whole(user, (one for one in listed if one.message))
    return [operation_row(one, is_whole=one.pk in whole) for one in listed]


def operation_row(operation: Operation, *, is_whole: bool = False) -> OperationRow:
    """`is_whole`: whether its message is shown whole (`shown_whole`)."""
    total = operation.progress_total
    return OperationRow(
        id=operation.pk,
        table_slug=operation.table.slug,
        table_name=operation.table.name,
        kind=operation.kind,
        service=operation.service,
        state=operation.state,
        is_final=OperationState(operation.state) in FINAL,
        requested_by=requested_by(operation),
        requested_at=operation.requested_at,
        started_at=operation.started_at,
        finished_at=operation.finished_at,
        reason=operation.reason,
        instant=operation.instant,
        writer=str(operation.parameters.get("writer", "")),
        message=select_message(operation.message, is_whole=is_whole),
        progress_done=operation.progress_done,
        progress_total=total,
        progress_unit=operation.progress_unit,
        progress_pct=min(100.0, 100 * operation.progress_done / total) if total else None,
        left_s=_estimate_left_s(operation),
        attempts=operation.attempts,
        lasted_s=_lasted_s(operation),
        waits_for=None,
    )


def _shown_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    job = parameters.get("job", {})
    if "source" not in job:
        return parameters
    return {**parameters, "job": {**job, "source": without_statement(job["source"])}}


def _lasted_s(operation: Operation) -> float | None:
    if operation.started_at is None:
        return None
    until = operation.finished_at or timezone.now()
    return max(0.0, (until - operation.started_at).total_seconds())


def _estimate_left_s(operation: Operation) -> float | None:
    lasted_s = _lasted_s(operation)
    if operation.kind in _WITHOUT_ETA or operation.state != _RUNNING or lasted_s is None:
        return None
    done, total = operation.progress_done, operation.progress_total
    left = left_ms(tasks=total, done=done, running=0, elapsed_ms=lasted_s * 1000)
    return None if left is None else left / 1000


def requested_by(operation: Operation) -> str:
    """Empty for what a schedule started. Whoever has a shell is a user of the system."""
    if operation.requested_by is not None:
        return operation.requested_by.get_username()
    parameters = operation.parameters
    is_shell = parameters.get(IS_SHELL) or parameters.get(REQUESTED_IN_SHELL)
    return str(parameters["job"]["by"]) if is_shell else ""


def _operations() -> QuerySet[Operation]:
    return Operation.objects.select_related("table", "requested_by")
