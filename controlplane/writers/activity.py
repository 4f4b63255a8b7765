"""What each writer is doing now: heartbeat and other signs of life, the file groups that it claims,
the table lock, and what early detection says of it. Reads the mirror; never touches storage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from controlplane.mirror.models import LockRecord, MarkerDirectory
from controlplane.tables.models import Table
from controlplane.writers.queries import WriterRow, writers_board
from workers.clock import InstantTime

MET_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Early detection has found that this write cannot commit."""

    rival: InstantTime
    rival_writer: str
    file_groups: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterActivity:
    row: WriterRow
    marker_layout: str
    """direct, timeline_server_based, mixed; empty while there are no markers"""
    marked_at: datetime | None
    """When its markers last grew, as far as the mirror saw."""
    claims: list[tuple[str, str]]
    """(partition, file id) announced by its markers, the first of them."""
    claim_count: int
    met: list[tuple[str, str]]
    """(instant, writer) of the writers that claim one of these file groups too."""
    lock: Literal["", "holds", "waits"]
    lock_since_ms: int | None
    verdict: Verdict | None
    stops_responding: bool
    """The heartbeat is late although its markers grew since: never to be rolled back unseen."""


def writers_activity(table: Table, now: datetime) -> list[WriterActivity]:
    """What needs a look first. Three queries."""
    rows = writers_board(table, now)
    directories = {one.instant: one for one in MarkerDirectory.objects.filter(table=table)}
    lock = LockRecord.objects.filter(table=table).first()
    claimed: dict[tuple[str, str], list[InstantTime]] = defaultdict(list)
    living = {row.instant: row for row in rows if row.state != "gone"}
    for instant, directory in directories.items():
        if instant in living:
            for partition, file_id in directory.claims:
                claimed[partition, file_id].append(instant)
    activities = [
        _activity(row, directories.get(row.instant), lock, claimed, living) for row in rows
    ]
    return sorted(activities, key=_urgency)


def _urgency(activity: WriterActivity) -> tuple[bool, ...]:
    """Stable: of one urgency the board's order holds."""
    return (
        not is_living(activity.row),
        activity.row.state != "expired",
        activity.verdict is None,
        not activity.stops_responding,
        not activity.met,
    )


def _activity(
    row: WriterRow,
    directory: MarkerDirectory | None,
    lock: LockRecord | None,
    claimed: Mapping[tuple[str, str], Sequence[InstantTime]],
    living: Mapping[InstantTime, WriterRow],
) -> WriterActivity:
    claims = [(str(pair[0]), str(pair[1])) for pair in directory.claims] if directory else []
    met = dict.fromkeys(
        other for claim in claims for other in claimed.get(claim, ()) if other != row.instant
    )
    state, since_ms = _lock_of(row, lock)
    marked_at = directory.changed_at if directory else None
    return WriterActivity(
        row=row,
        marker_layout=directory.layout if directory else "",
        marked_at=marked_at,
        claims=claims,
        claim_count=directory.claim_count if directory else 0,
        met=[(one, living[one].writer) for one in list(met)[:MET_SHOWN]] if is_living(row) else [],
        lock=state,
        lock_since_ms=since_ms,
        verdict=_verdict(directory.verdict if directory else None),
        stops_responding=row.state in ("suspect", "expired")
        and marked_at is not None
        and marked_at > row.beat_at,
    )


def is_living(row: WriterRow) -> bool:
    return row.state != "gone"


def _lock_of(
    row: WriterRow, lock: LockRecord | None
) -> tuple[Literal["", "holds", "waits"], int | None]:
    if lock is None or not is_living(row):
        return "", None
    if lock.is_held and row.instant in lock.instant.split("+"):
        return "holds", int(lock.since.timestamp() * 1000) if lock.since else None
    for waiter in lock.waiters:
        if waiter.get("instant") == row.instant:
            return "waits", int(waiter["since_ms"])
    return "", None


def _verdict(written: Mapping[str, Any] | None) -> Verdict | None:
    if not written or written.get("problem"):
        return None
    return Verdict(
        rival=str(written.get("rival") or ""),
        rival_writer=str(written.get("rival_writer") or ""),
        file_groups=int(written.get("file_groups") or 0),
        message=str(written.get("message") or ""),
    )
