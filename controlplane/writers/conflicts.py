"""Who lost to whom and over what, as plain rows: lists, and one conflict with both of its writers.

Reads the mirror; never touches storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from django.db.models import Count, Q, QuerySet

from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.paging import PAGE_ROWS, Page, chosen_order, in_order, newest_first
from controlplane.tables.masks import MASK
from controlplane.tables.messages import select_message
from controlplane.tables.models import Table
from controlplane.tables.row_access import RowAccess, do_record_rows_glanced_at
from controlplane.writers.models import Conflict
from workers.clock import InstantTime, parse_instant
from workers.concurrency.conflicts import ConflictRule as ConflictRule  # noqa: PLC0414 - for pages

Ending = Literal["committed", "pending", "rolled_back", "gone"]
"""`gone`: on the timeline no more, and by whom it was taken away is not known here."""
ELSEWHERE_SHOWN = 200

SORTED_BY = {
    key: key for key in ("decided_at", "loser_writer", "winner_writer", "wasted_bytes", "lasted_ms")
}
"""What conflicts may be sorted by, and the columns."""


_RULE_CODES = frozenset(ConflictRule)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRow:
    loser_instant: InstantTime
    loser_writer: str
    winner_instant: InstantTime
    winner_writer: str
    kind: str
    detected: str
    """early, while the write still ran, or commit"""
    message: str
    overlap: list[tuple[str, str]]
    """(partition, file id): a file id alone is never a key."""
    overlap_count: int
    schemas: Mapping[str, Any] | None
    strategy: str
    """Of early detection, Hudi's class name; else empty."""
    wasted_files: int
    """Data files that the loser wrote in vain."""
    wasted_bytes: int
    lasted_ms: int | None
    """From the begin of the losing write to the verdict; null where the decision does not say."""
    details: Mapping[str, Any]
    decided_at: datetime

    @property
    def rule(self) -> ConflictRule | None:
        """The rule that found it; None for a schema conflict, and if the rule is unknown."""
        return parse_rule(self.details)

    @property
    def began_ms(self) -> int:
        return parse_instant(self.loser_instant)

    @property
    def verdict_ms(self) -> int:
        if self.lasted_ms is not None:
            return self.began_ms + self.lasted_ms
        return int(self.decided_at.timestamp() * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictSide:
    """One of the two writers. What nobody wrote down is empty."""

    instant: InstantTime
    writer: str
    stream: str
    action: str
    operation: str
    mode: str
    host: str
    pid: int | None
    began_ms: int | None
    ended_ms: int | None
    """Of the winner its completion, of the loser the verdict; null while it runs."""
    ending: Ending
    rows: int | None
    files: int | None
    bytes: int | None
    elsewhere: list[tuple[str, str]]
    """File groups that it touched and the other did not, as far as they are kept."""
    elsewhere_count: int | None
    """Null where that is not known."""
    operation_id: str
    """Of the control plane's, when it started this writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """What the loser did next, by itself."""

    attempt: int
    attempts_max: int
    next_instant: InstantTime
    """Of its next attempt; empty where none is known."""
    next_state: Literal["", "committed", "pending", "conflicted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictDetail:
    row: ConflictRow
    winner: ConflictSide
    loser: ConflictSide
    table_type: str
    rolled_back_by: str
    """The rollback instant that took the loser's files away."""
    markers_left: int
    """Of the loser; none once its rollback is through."""
    retry: Retry
    others: int
    """Further conflicts that the same winner won."""


def recent_query(table: Table, limit: int = 20) -> QuerySet[Conflict]:
    """Return the query of the newest decisions."""
    conflicts = Conflict.objects.filter(table=table).order_by("-decided_at", "-loser_instant")
    return conflicts[:limit]


def conflicts_page(
    table: Table,
    access: RowAccess,
    *,
    kind: str | None = None,
    detected: str | None = None,
    writer: str | None = None,
    sort: str | None = None,
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[ConflictRow]:
    """Conflicts of a table, newest first or as a key of `SORTED_BY` says. `writer`: part of the
    name of either side.
    """
    conflicts = _filtered(table, kind=kind, detected=detected, writer=writer)
    order = chosen_order(sort, SORTED_BY)
    if order is None:
        page = newest_first(conflicts, by="decided_at", cursor=cursor, limit=limit)
    else:
        page = in_order(conflicts, order, cursor=cursor, limit=limit)
    return Page([conflict_row(conflict, access) for conflict in page.rows], page.next_cursor)


def rivalries(table: Table) -> dict[tuple[str, str], int]:
    """(loser, winner) by their names -> how often, among all conflicts that are kept. One query."""
    conflicts = Conflict.objects.filter(table=table).values_list("loser_writer", "winner_writer")
    return {(one[0], one[1]): one[2] for one in conflicts.annotate(times=Count("pk"))}


def conflict_of(table: Table, access: RowAccess, loser_instant: InstantTime) -> ConflictRow | None:
    """Why this instant lost, if it did."""
    conflict = Conflict.objects.filter(table=table, loser_instant=loser_instant).first()
    return None if conflict is None else conflict_row(conflict, access)


def conflict_detail(
    table: Table, access: RowAccess, loser_instant: InstantTime
) -> ConflictDetail | None:
    """One conflict with both sides; None when this instant lost none. Seven queries."""
    row = conflict_of(table, access, loser_instant)
    if row is None:
        return None
    instants = list(
        InstantRecord.objects.filter(
            table=table, requested_at__in=[row.loser_instant, row.winner_instant]
        ).exclude(action="savepoint")
    )
    beats = {
        beat.instant: beat
        for beat in HeartbeatRecord.objects.filter(
            table=table, instant__in=[row.loser_instant, row.winner_instant]
        )
    }
    winner = next((one for one in instants if one.requested_at == row.winner_instant), None)
    markers = table.marker_counts.filter(instant=row.loser_instant)
    others = Conflict.objects.filter(table=table, winner_instant=row.winner_instant)
    return ConflictDetail(
        row=row,
        winner=_winner(row, winner, beats.get(row.winner_instant)),
        loser=_loser(row),
        table_type=table.table_type,
        rolled_back_by=str(row.details.get("rolled_back_by") or ""),
        markers_left=sum(markers.values_list("count", flat=True)),
        retry=_retry(table, row),
        others=max(0, others.count() - 1) if row.winner_instant else 0,
    )


def conflict_row(conflict: Conflict, access: RowAccess) -> ConflictRow:
    """As much of it as may be seen. Keys in it are a look at rows that is in the audit."""
    keys = conflict.details.get("keys") or []
    details = conflict.details
    if keys and access.hides_keys:
        details = {**details, "keys": [MASK for _ in keys]}
    elif keys:
        do_record_rows_glanced_at(access, door="conflict", rows=len(keys))
    return ConflictRow(
        loser_instant=conflict.loser_instant,
        loser_writer=conflict.loser_writer,
        winner_instant=conflict.winner_instant,
        winner_writer=conflict.winner_writer,
        kind=conflict.kind,
        detected=conflict.detected,
        message=select_message(conflict.message, is_whole=access.sees_all),
        overlap=_pairs(conflict.file_groups),
        overlap_count=max(conflict.overlap, len(conflict.file_groups)),
        schemas=conflict.schemas,
        strategy=conflict.strategy,
        wasted_files=conflict.wasted_files,
        wasted_bytes=conflict.wasted_bytes,
        lasted_ms=conflict.lasted_ms,
        details=details,
        decided_at=conflict.decided_at,
    )


def _filtered(
    table: Table, *, kind: str | None, detected: str | None, writer: str | None
) -> QuerySet[Conflict]:
    conflicts = Conflict.objects.filter(table=table)
    if kind is not None:
        conflicts = conflicts.filter(kind=kind)
    if detected is not None:
        conflicts = conflicts.filter(detected=detected)
    if writer:
        conflicts = conflicts.filter(
            Q(loser_writer__icontains=writer) | Q(winner_writer__icontains=writer)
        )
    return conflicts


def _winner(
    row: ConflictRow, instant: InstantRecord | None, beat: HeartbeatRecord | None
) -> ConflictSide:
    """From its commit; while it runs from its heartbeat."""
    metadata: Mapping[str, Any] = instant.metadata if instant else {}
    process: Mapping[str, Any] = metadata.get("process") or {}
    groups = _pairs(metadata.get("file_groups") or [])
    known = set(row.overlap)
    elsewhere = [group for group in groups if group not in known]
    counted = metadata.get("file_group_count")
    met = len(groups) - len(elsewhere)
    completed_at = instant.completed_at if instant else None
    return ConflictSide(
        instant=row.winner_instant,
        writer=row.winner_writer or (instant.writer_name if instant else ""),
        stream=(instant.stream if instant else "") or (beat.stream if beat else ""),
        action=instant.action if instant else "",
        operation=(instant.operation_type if instant else "") or (beat.operation if beat else ""),
        mode=str(process.get("mode") or (beat.mode if beat else "")),
        host=str(process.get("host") or (beat.host if beat else "")),
        pid=process.get("pid")
        if isinstance(process.get("pid"), int)
        else beat.pid
        if beat
        else None,
        began_ms=parse_instant(row.winner_instant) if row.winner_instant else None,
        ended_ms=parse_instant(completed_at) if completed_at else None,
        ending=_winner_ending(instant),
        rows=instant.rows if instant else None,
        files=instant.files if instant else None,
        bytes=instant.bytes if instant else None,
        elsewhere=elsewhere[:ELSEWHERE_SHOWN],
        elsewhere_count=counted - max(met, row.overlap_count if len(groups) < counted else met)
        if isinstance(counted, int)
        else None,
        operation_id=instant.operation_ref if instant else "",
    )


def _winner_ending(instant: InstantRecord | None) -> Ending:
    if instant is None:
        return "gone"
    return "committed" if instant.state == "completed" else "pending"


def _loser(row: ConflictRow) -> ConflictSide:
    """From its own decision: its files are gone, and its heartbeat soon is."""
    lost: Mapping[str, Any] = row.details.get("lost") or {}
    pid = lost.get("pid")
    count = lost.get("elsewhere_count")
    return ConflictSide(
        instant=row.loser_instant,
        writer=row.loser_writer,
        stream=str(lost.get("stream") or ""),
        action="",
        operation=str(lost.get("operation") or ""),
        mode=str(lost.get("mode") or ""),
        host=str(lost.get("host") or ""),
        pid=pid if isinstance(pid, int) else None,
        began_ms=row.began_ms,
        ended_ms=row.verdict_ms,
        ending="rolled_back",
        rows=None,
        files=row.wasted_files,
        bytes=row.wasted_bytes,
        elsewhere=_pairs(lost.get("elsewhere") or []),
        elsewhere_count=count if isinstance(count, int) else None,
        operation_id=str(lost.get("operation_id") or ""),
    )


def _retry(table: Table, row: ConflictRow) -> Retry:
    lost: Mapping[str, Any] = row.details.get("lost") or {}
    attempt, most = int(lost.get("attempt") or 1), int(lost.get("attempts_max") or 1)
    retry = Retry(attempt=attempt, attempts_max=most, next_instant="", next_state="")
    if attempt >= most or not row.loser_writer:
        return retry
    later = InstantRecord.objects.filter(
        table=table, writer_name=row.loser_writer, requested_at__gt=row.loser_instant
    ).order_by("requested_at")
    again = Conflict.objects.filter(
        table=table,
        loser_writer=row.loser_writer,
        loser_instant__gt=row.loser_instant,
        details__lost__attempt=attempt + 1,
    ).order_by("loser_instant")
    if (lost_again := again.first()) is not None:
        return replace(retry, next_instant=lost_again.loser_instant, next_state="conflicted")
    if (instant := later.first()) is not None:
        is_done = instant.state == "completed"
        return replace(
            retry,
            next_instant=instant.requested_at,
            next_state="committed" if is_done else "pending",
        )
    return retry


def _pairs(groups: Sequence[Sequence[object]]) -> list[tuple[str, str]]:
    return [(str(pair[0]), str(pair[1])) for pair in groups]


def parse_rule(details: Mapping[str, Any]) -> ConflictRule | None:
    """Return the rule that a decision's details name; None if they name none or an unknown rule."""
    code = details.get("rule")
    return ConflictRule(code) if isinstance(code, str) and code in _RULE_CODES else None
