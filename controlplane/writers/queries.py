"""The writers of a table, as plain rows. Never touches storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery, Sum

from controlplane.mirror.models import HeartbeatRecord, InstantRecord, Liveness, MarkerCount
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from workers.clock import InstantTime

WriterEnding = Literal["", "committed", "rolled_back", "conflicted", "ended"]
"""What became of the instant of a writer that is gone; empty while it is not, `ended` as long as
nobody knows.
"""
Doing = Literal["", "preparing", "beginning", "writing", "tidying"]
"""By how far its instant is: requested, when Hudi looks its keys up; inflight, without markers of
files yet, or with them; completed, when it removes those.
"""
GONE_SHOWN_FOR = timedelta(minutes=2)
"""A writer that ended stays on the board this long, so that a short write can be seen at all."""
_ORDER: dict[Liveness, int] = {"expired": 0, "suspect": 1, "alive": 2, "gone": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRow:
    writer: str
    stream: str
    instant: InstantTime
    operation: str
    """As its heartbeat says it, else as the files of its pending instant do."""
    doing: Doing
    """Empty where the timeline does not tell."""
    mode: str
    host: str
    pid: int | None
    beat_at: datetime
    beat_age_s: float
    expires_in_s: float
    """Below zero once recovery may take the instant over."""
    tolerance_s: float
    state: Liveness
    markers: int
    operation_id: str
    ending: WriterEnding
    """Of one that is gone: committed, conflicted, rolled_back, or ended while the timeline still
    shows its instant pending; empty for the others.
    """


def beats_query(table: Table, now: datetime) -> QuerySet[HeartbeatRecord]:
    """Return the query of heartbeats that `writers_board` shows."""
    of_instant = {"table": table, "requested_at": OuterRef("instant")}
    instants = InstantRecord.objects.filter(**of_instant).exclude(action="savepoint")
    markers = MarkerCount.objects.filter(table=table, instant=OuterRef("instant"))
    return (
        HeartbeatRecord.objects.filter(table=table)
        .filter(Q(is_gone=False) | Q(last_seen__gte=now - GONE_SHOWN_FOR))
        .annotate(
            marked=Subquery(markers.values("instant").annotate(n=Sum("count")).values("n")),
            instant_state=Subquery(instants.values("state")[:1]),
            instant_operation=Subquery(instants.values("operation_type")[:1]),
            has_lost=Exists(
                Conflict.objects.filter(table=table, loser_instant=OuterRef("instant"))
            ),
        )
    )


def writers_board(
    table: Table, now: datetime, beats: QuerySet[HeartbeatRecord] | None = None
) -> list[WriterRow]:
    """List active, expired and just ended writers, problems first. One query, or none where
    `beats`, which `beats_query` made, was read before.
    """
    rows = [
        _writer_row(
            beat,
            now,
            markers=vars(beat)["marked"] or 0,
            operation=beat.operation or vars(beat)["instant_operation"] or "",
            instant_state=vars(beat)["instant_state"] or "",
            ending=_ending(vars(beat)["instant_state"], has_lost=vars(beat)["has_lost"]),
        )
        for beat in (beats_query(table, now) if beats is None else beats)
    ]
    kept = [row for row in rows if row.state != "gone"] + _last_of_each_ended(rows)
    return sorted(kept, key=lambda row: (_ORDER[row.state], row.writer, row.instant))


def _ending(instant_state: str | None, *, has_lost: bool) -> WriterEnding:
    """An instant that is on the timeline no more was rolled back: by its writer, which lost, or by
    recovery.
    """
    if has_lost:
        return "conflicted"
    if instant_state is None:
        return "rolled_back"
    return "committed" if instant_state == "completed" else "ended"


def _last_of_each_ended(rows: list[WriterRow]) -> list[WriterRow]:
    """A stream ends an instant every few seconds and goes on: only one that stopped is news."""
    going_on = {row.writer for row in rows if row.state != "gone"}
    ended = sorted((row for row in rows if row.state == "gone"), key=lambda row: row.instant)
    return list({row.writer: row for row in ended if row.writer not in going_on}.values())


def _writer_row(
    beat: HeartbeatRecord,
    now: datetime,
    *,
    markers: int,
    operation: str,
    instant_state: str,
    ending: WriterEnding,
) -> WriterRow:
    age_s = (now - beat.beat_at).total_seconds()
    state = beat.liveness(age_s=age_s)
    return WriterRow(
        writer=beat.writer_name,
        stream=beat.stream,
        instant=beat.instant,
        operation=operation,
        doing="" if state == "gone" else _doing(instant_state, markers),
        mode=beat.mode,
        host=beat.host,
        pid=beat.pid,
        beat_at=beat.beat_at,
        beat_age_s=age_s,
        expires_in_s=beat.tolerance_s - age_s,
        tolerance_s=beat.tolerance_s,
        state=state,
        markers=markers,
        operation_id=beat.operation_ref,
        ending=ending if state == "gone" else "",
    )


def _doing(instant_state: str, markers: int) -> Doing:
    match instant_state:
        case "requested":
            return "preparing"
        case "inflight":
            return "writing" if markers else "beginning"
        case "completed":
            return "tidying"
        case _:
            return ""
