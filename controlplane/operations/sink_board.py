"""Sinks with the operations that run them: what the mirror saw of each, and what was asked for.

One word says how a sink is. It is computed when somebody looks, from how old its last word is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from django.http import Http404
from django.utils import timezone

from controlplane.mirror.apply import moment
from controlplane.mirror.queries.sinks import SinkRow, silent_at, sink_rows
from controlplane.operations.models import Operation
from controlplane.operations.sink_relaunches import relaunch_due
from controlplane.operations.sink_stops import SINK, stop_deadline
from controlplane.operations.states import FINAL, OperationState
from controlplane.tables.messages import select_message
from controlplane.tables.models import Table
from workers.clock import parse_instant

UNSEEN_AFTER = timedelta(seconds=20)
"""A participant that is waited for and was not heard for so long will hardly come; one that never
was has this long from the beginning of the transaction.
"""
OPERATIONS_LOOKED_AT = 300

Phase = Literal[
    "starting", "running", "stuck", "silent", "stopping", "cancelling",
    "stopped", "fenced", "lost", "failed", "unreadable",
]  # fmt: skip
_BY_URGENCY: tuple[Phase, ...] = (
    "lost", "failed", "stuck", "silent", "unreadable", "fenced", "cancelling", "stopping",
    "starting", "running", "stopped",
)  # fmt: skip
_OPEN_PHASES: Mapping[str, Phase] = {"stopping": "stopping", "cancelling": "cancelling"}
_END_PHASES: Mapping[str, Phase] = {
    "lost": "lost", "failed": "failed", "fenced": "fenced", "refused": "failed",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRun:
    """The newest operation of a sink."""

    id: UUID
    state: str
    is_final: bool
    requested_by: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    message: str
    pid: int | None
    application: str
    options: Mapping[str, str]
    relaunches: int
    relaunches_max: int
    relaunch_at: datetime | None
    """When it is launched again by itself."""
    stop_by: str
    stop_kind: str
    stop_deadline: datetime | None
    """When a sink that ends its transaction is stopped without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSummary:
    sink_id: str
    phase: Phase
    is_running: bool
    """Something may be there that a stop would reach."""
    topic: str
    seen: SinkRow | None
    """None before it has put anything beside the table."""
    run: SinkRun | None
    """None for one that was started from a shell."""
    silent_at: datetime | None
    """When the word of now is too old to hold, unless it says another one before."""


def sinks_board(
    table: Table, now: datetime | None = None, *, is_whole: bool = False
) -> list[SinkSummary]:
    """All sinks of the table, those that need attention first. Three queries. `is_whole`: whether
    the reader sees every value of the table's rows.
    """
    at = now or timezone.now()
    seen = {one.sink_id: one for one in sink_rows(table, is_whole=is_whole)}
    runs: dict[str, Operation] = {}
    launches = Operation.objects.filter(table=table, kind=SINK)
    for launch in launches.select_related("requested_by").order_by("-requested_at")[
        :OPERATIONS_LOOKED_AT
    ]:
        runs.setdefault(launch.sink_id, launch)
    board = [
        _summary(sink_id, seen.get(sink_id), runs.get(sink_id), at, is_whole=is_whole)
        for sink_id in sorted(seen.keys() | runs.keys())
    ]
    return sorted(board, key=lambda sink: _BY_URGENCY.index(sink.phase))


def sink_summary(
    table: Table, sink_id: str, now: datetime | None = None, *, is_whole: bool = False
) -> SinkSummary:
    """The sink of this id as pages show it. Raises Http404."""
    for summary in sinks_board(table, now, is_whole=is_whole):
        if summary.sink_id == sink_id:
            return summary
    raise Http404(f"sink {sink_id} not found in this table")


def letters_directory(summary: SinkSummary) -> str:
    """Where the sink was told to put its dead letters; empty where it was told nothing."""
    return summary.run.options.get("hoodie.sink.dead.letter.path", "") if summary.run else ""


def _summary(
    sink_id: str,
    seen: SinkRow | None,
    operation: Operation | None,
    now: datetime,
    *,
    is_whole: bool,
) -> SinkSummary:
    phase = _phase(seen, operation, now)
    run = _run(operation, is_whole=is_whole) if operation else None
    topic = run.options.get("hoodie.kafka.topic", "") if run else ""
    return SinkSummary(
        sink_id=sink_id,
        phase=phase,
        is_running=phase not in ("stopped", "fenced", "lost", "failed"),
        topic=(seen.topic if seen else "") or topic,
        seen=seen,
        run=run,
        silent_at=silent_at(seen) if seen and _is_fresh(seen, now) else None,
    )


def _is_fresh(seen: SinkRow, now: datetime) -> bool:
    ends = silent_at(seen)
    return ends is not None and now < ends


def _phase(seen: SinkRow | None, operation: Operation | None, now: datetime) -> Phase:
    is_open = operation is not None and OperationState(operation.state) not in FINAL
    if operation is not None and is_open:
        if operation.state in _OPEN_PHASES:
            return _OPEN_PHASES[operation.state]
        shown_at = seen.updated_at if seen else None
        if shown_at is None or shown_at < operation.requested_at:
            return "starting" if seen is None or not seen.problem else "unreadable"
    if seen is not None and _is_fresh(seen, now):
        return "stuck" if _is_stuck(seen, now) else "stopping" if seen.stop_kind else "running"
    if operation is not None and not is_open:
        if operation.state == OperationState.FENCED.value and seen and seen.state == "STOPPED":
            return "stopped"  # By whoever had taken over.
        return _END_PHASES.get(operation.state, "stopped")
    if seen is None or not seen.state:
        return "unreadable" if seen is not None and seen.problem else "silent"
    if seen.is_over:
        return "fenced" if seen.state == "FENCED" else "stopped"
    return "silent"


def _is_stuck(seen: SinkRow, now: datetime) -> bool:
    if seen.state == "WRITE_STATUS_TIMEDOUT":
        return True
    began = moment(parse_instant(seen.instant)) if seen.instant else now
    return any(now - (one.seen_at or began) > UNSEEN_AFTER for one in seen.waits_for)


def _run(operation: Operation, *, is_whole: bool) -> SinkRun:
    job, parameters = operation.parameters["job"], operation.parameters
    stop = parameters.get("stop") or {}
    return SinkRun(
        id=operation.pk,
        state=operation.state,
        is_final=OperationState(operation.state) in FINAL,
        requested_by=operation.requested_by.get_username() if operation.requested_by else "",
        requested_at=operation.requested_at,
        started_at=operation.started_at,
        finished_at=operation.finished_at,
        message=select_message(operation.message, is_whole=is_whole),
        pid=operation.pid,
        application=str(job["application"]),
        options=job["sink_options"],
        relaunches=int(parameters.get("relaunches", 0)),
        relaunches_max=int(parameters.get("relaunches_max", 0)),
        relaunch_at=relaunch_due(operation),
        stop_by=str(stop.get("by", "")),
        stop_kind=str(stop.get("kind", "")),
        stop_deadline=stop_deadline(operation),
    )
