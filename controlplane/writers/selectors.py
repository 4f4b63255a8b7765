"""The writers of a table and the conflicts between them, as plain rows. Never touches storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, Subquery, Sum

from controlplane.mirror.models import HeartbeatRecord, InstantRecord, Liveness, MarkerCount
from controlplane.paging import PAGE_ROWS, Page, newest_first
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from workers.clock import InstantTime

GONE_SHOWN_FOR = timedelta(minutes=2)
"""A writer that ended stays on the board this long, so that a short write can be seen at all."""
_ORDER: dict[Liveness, int] = {"expired": 0, "suspect": 1, "alive": 2, "gone": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRow:
    writer: str
    stream: str
    instant: InstantTime
    operation: str
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
    ending: str
    """Of one that is gone: committed, conflicted, rolled_back, or ended while the timeline still
    shows its instant pending; empty for the others.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRow:
    loser_instant: InstantTime
    loser_writer: str
    winner_instant: InstantTime
    winner_writer: str
    kind: str
    message: str
    overlap: list[tuple[str, str]]
    """(partition, file id): a file id alone is never a key."""
    schemas: Mapping[str, Any] | None
    detected: str
    """`early`, while the loser still wrote, or `commit`."""
    strategy: str
    """Of early detection, Hudi's class name; else empty."""
    wasted_files: int
    """Data files that the loser wrote in vain."""
    wasted_bytes: int
    lasted_ms: int
    """From the loser's begin to the verdict."""
    decided_at: datetime


def writers_board(table: Table, now: datetime) -> list[WriterRow]:
    """Who writes now, who stopped beating, who just ended; what needs a look first. One query."""
    of_instant = {"table": table, "requested_at": OuterRef("instant")}
    instants = InstantRecord.objects.filter(**of_instant).exclude(action="savepoint")
    markers = MarkerCount.objects.filter(table=table, instant=OuterRef("instant"))
    beats = (
        HeartbeatRecord.objects.filter(table=table)
        .filter(Q(is_gone=False) | Q(last_seen__gte=now - GONE_SHOWN_FOR))
        .annotate(
            marked=Subquery(markers.values("instant").annotate(n=Sum("count")).values("n")),
            instant_state=Subquery(instants.values("state")[:1]),
            has_lost=Exists(
                Conflict.objects.filter(table=table, loser_instant=OuterRef("instant"))
            ),
        )
    )
    rows = [
        _writer_row(
            beat,
            now,
            markers=beat.marked or 0,
            ending=_ending(beat.instant_state, has_lost=beat.has_lost),
        )
        for beat in beats
    ]
    kept = [row for row in rows if row.state != "gone"] + _last_of_each_ended(rows)
    return sorted(kept, key=lambda row: (_ORDER[row.state], row.writer, row.instant))


def _ending(instant_state: str | None, *, has_lost: bool) -> str:
    """An instant that is on the timeline no more was rolled back: by its writer, which lost, or by
    recovery.
    """
    if has_lost:
        return "conflicted"
    return {"completed": "committed", None: "rolled_back"}.get(instant_state, "ended")


def _last_of_each_ended(rows: list[WriterRow]) -> list[WriterRow]:
    """A stream ends an instant every few seconds and goes on: only one that stopped is news."""
    going_on = {row.writer for row in rows if row.state != "gone"}
    ended = sorted((row for row in rows if row.state == "gone"), key=lambda row: row.instant)
    return list({row.writer: row for row in ended if row.writer not in going_on}.values())


def recent_conflicts(table: Table, limit: int = 20) -> list[ConflictRow]:
    """The newest decisions first."""
    found = Conflict.objects.filter(table=table).order_by("-decided_at", "-loser_instant")
    return [conflict_row(conflict) for conflict in found[:limit]]


def conflicts_page(
    table: Table,
    *,
    kind: str | None = None,
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[ConflictRow]:
    """All conflicts of a table, newest first."""
    found = Conflict.objects.filter(table=table)
    if kind is not None:
        found = found.filter(kind=kind)
    page = newest_first(found, by="decided_at", cursor=cursor, limit=limit)
    return Page([conflict_row(conflict) for conflict in page.rows], page.next_cursor)


def conflict_of(table: Table, loser_instant: InstantTime) -> ConflictRow | None:
    """Why this instant lost, if it did."""
    found = Conflict.objects.filter(table=table, loser_instant=loser_instant).first()
    return None if found is None else conflict_row(found)


def conflict_row(conflict: Conflict) -> ConflictRow:
    return ConflictRow(
        loser_instant=conflict.loser_instant,
        loser_writer=conflict.loser_writer,
        winner_instant=conflict.winner_instant,
        winner_writer=conflict.winner_writer,
        kind=conflict.kind,
        message=conflict.message,
        overlap=[(str(pair[0]), str(pair[1])) for pair in conflict.file_groups],
        schemas=conflict.schemas,
        detected=conflict.detected,
        strategy=conflict.strategy,
        wasted_files=conflict.wasted_files,
        wasted_bytes=conflict.wasted_bytes,
        lasted_ms=conflict.lasted_ms,
        decided_at=conflict.decided_at,
    )


def _writer_row(beat: HeartbeatRecord, now: datetime, *, markers: int, ending: str) -> WriterRow:
    age_s = (now - beat.beat_at).total_seconds()
    state = beat.liveness(age_s=age_s)
    return WriterRow(
        writer=beat.writer_name,
        stream=beat.stream,
        instant=beat.instant,
        operation=beat.operation,
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
